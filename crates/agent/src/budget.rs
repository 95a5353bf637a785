//! Budgets: what a session may use up, and what it has. Pure but for the clock it is handed.

use std::time::Duration;

use protocol::{BudgetKind, Outcome, Spending, Usage};

/// Ceilings for one run; `None` is no ceiling.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Budget {
    /// In US dollars. Only for a model whose prices are known.
    pub cost: Option<f64>,
    /// Input and output, cached or not.
    pub tokens: Option<u64>,
    /// Requests to the model.
    pub turns: Option<u32>,
    pub time: Option<Duration>,
}

/// A budget and what was spent of it.
#[derive(Debug, Clone)]
pub(crate) struct Ledger {
    budget: Budget,
    usage: Usage,
    cost: Option<f64>,
    requests: u32,
}

impl Ledger {
    pub(crate) fn new(budget: Budget) -> Self {
        Self {
            budget,
            usage: Usage::default(),
            cost: Some(0.0),
            requests: 0,
        }
    }

    /// One request more, with what it used.
    pub(crate) fn spend(&mut self, usage: Usage, cost: Option<f64>) {
        self.requests += 1;
        self.usage += usage;
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
    }

    /// Why no further request may be made, if none may.
    pub(crate) fn exceeded(&self, elapsed: Duration) -> Option<Outcome> {
        let budget = &self.budget;
        let over = |budget, reason| Some(Outcome::Budget { budget, reason });
        match () {
            () if reached(self.cost, budget.cost) => over(
                BudgetKind::Cost,
                format!(
                    "${:.4} of ${:.4} are spent",
                    self.cost.unwrap_or_default(),
                    budget.cost.unwrap_or_default()
                ),
            ),
            () if reached(Some(self.usage.total()), budget.tokens) => over(
                BudgetKind::Tokens,
                format!(
                    "{} of {} tokens are used",
                    self.usage.total(),
                    budget.tokens.unwrap_or_default()
                ),
            ),
            () if reached(Some(self.requests), budget.turns) => over(
                BudgetKind::Turns,
                format!("{} requests were made", self.requests),
            ),
            () if reached(Some(elapsed), budget.time) => Some(self.out_of_time()),
            () => None,
        }
    }

    pub(crate) fn out_of_time(&self) -> Outcome {
        let reason = format!("{:?} are over", self.budget.time.unwrap_or_default());
        Outcome::Budget {
            budget: BudgetKind::Time,
            reason,
        }
    }

    pub(crate) fn time(&self) -> Option<Duration> {
        self.budget.time
    }

    pub(crate) fn spending(&self, elapsed: Duration) -> Spending {
        Spending {
            usage: self.usage,
            cost: self.cost,
            requests: self.requests,
            seconds: elapsed.as_secs_f64(),
            max_cost: self.budget.cost,
            max_tokens: self.budget.tokens,
            max_requests: self.budget.turns,
            max_seconds: self.budget.time.map(|time| time.as_secs_f64()),
        }
    }
}

fn reached<T: PartialOrd>(spent: Option<T>, most: Option<T>) -> bool {
    spent.zip(most).is_some_and(|(spent, most)| spent >= most)
}
