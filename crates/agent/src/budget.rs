//! The ledger of a session: what it has spent of its budget and its time. Pure: the elapsed time is
//! passed in. Entry type: [`BudgetLedger`].

use std::time::Duration;

use protocol::{Budget, BudgetKind, Event, EventKind, Outcome, Spending, Usage};

/// A budget, a time limit, and what was used of both.
#[derive(Debug, Clone)]
pub(crate) struct BudgetLedger {
    budget: Budget,
    time_limit: Option<Duration>,
    usage: Usage,
    cost: Option<f64>,
    requests: u32,
    /// Time spent before this run.
    before: Duration,
}

/// Sums what a session's replies and summaries have used, for a budget that covers all of its runs.
/// Does not include time, because events do not tell work from idle time.
pub fn spent(history: &[Event]) -> Spending {
    let mut ledger = BudgetLedger::new(Budget::default(), None, Spending::none());
    for event in history {
        if let EventKind::Replied { usage, cost, .. } | EventKind::Compacted { usage, cost, .. } =
            &event.kind
        {
            ledger.add_request(*usage, *cost);
        }
    }
    ledger.spending(Duration::ZERO)
}

impl BudgetLedger {
    pub(crate) fn new(budget: Budget, time_limit: Option<Duration>, spent: Spending) -> Self {
        Self {
            budget,
            time_limit,
            usage: spent.usage,
            cost: spent.cost,
            requests: spent.requests,
            before: Duration::try_from_secs_f64(spent.seconds).unwrap_or_default(),
        }
    }

    /// Total time used after this run has lasted for `run`.
    fn elapsed(&self, run: Duration) -> Duration {
        self.before.saturating_add(run)
    }

    /// Whether there is a cost limit, which requires known prices.
    pub(crate) fn has_cost_limit(&self) -> bool {
        self.budget.cost.is_some()
    }

    /// How long this run may last.
    pub(crate) fn time_left(&self) -> Option<Duration> {
        Some(self.time_limit?.saturating_sub(self.before))
    }

    /// Adds a request with its usage.
    pub(crate) fn add_request(&mut self, usage: Usage, cost: Option<f64>) {
        self.requests += 1;
        self.usage += usage;
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
    }

    /// The limit that forbids another request, if one is reached after this run has lasted for `run`.
    pub(crate) fn exceeded(&self, run: Duration) -> Option<Outcome> {
        let budget = &self.budget;
        let elapsed = self.elapsed(run);
        let over = |budget, reason| Some(Outcome::Budget { budget, reason });
        match () {
            () if is_reached(self.cost, budget.cost) => over(
                BudgetKind::Cost,
                format!(
                    "${:.4} of ${:.4} spent",
                    self.cost.unwrap_or_default(),
                    budget.cost.unwrap_or_default()
                ),
            ),
            () if is_reached(Some(self.usage.total()), budget.tokens) => over(
                BudgetKind::Tokens,
                format!(
                    "{} of {} tokens used",
                    self.usage.total(),
                    budget.tokens.unwrap_or_default()
                ),
            ),
            () if is_reached(Some(self.requests), budget.turns) => over(
                BudgetKind::Turns,
                format!("{} requests made", self.requests),
            ),
            () if is_reached(Some(elapsed), self.time_limit) => Some(self.out_of_time()),
            () => None,
        }
    }

    pub(crate) fn out_of_time(&self) -> Outcome {
        let reason = format!(
            "the time limit of {:?} was reached",
            self.time_limit.unwrap_or_default()
        );
        Outcome::Budget {
            budget: BudgetKind::Time,
            reason,
        }
    }

    pub(crate) fn spending(&self, run: Duration) -> Spending {
        Spending {
            usage: self.usage,
            cost: self.cost,
            requests: self.requests,
            seconds: self.elapsed(run).as_secs_f64(),
            max_cost: self.budget.cost,
            max_tokens: self.budget.tokens,
            max_requests: self.budget.turns,
            max_seconds: self.time_limit.map(|time| time.as_secs_f64()),
        }
    }
}

fn is_reached<T: PartialOrd>(spent: Option<T>, most: Option<T>) -> bool {
    spent.zip(most).is_some_and(|(spent, most)| spent >= most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(
        budget: Budget,
        time_limit: Option<Duration>,
        cost: Option<f64>,
        seconds: u64,
    ) -> Option<BudgetKind> {
        let mut ledger = BudgetLedger::new(budget, time_limit, Spending::none());
        let usage = Usage {
            input_tokens: 40,
            cache_read_input_tokens: 30,
            cache_creation_input_tokens: 20,
            output_tokens: 10,
        };
        ledger.add_request(usage, cost);
        match ledger.exceeded(Duration::from_secs(seconds)) {
            Some(Outcome::Budget { budget, .. }) => Some(budget),
            Some(other) => panic!("{other:?}"),
            None => None,
        }
    }

    #[test]
    fn the_first_limit_that_is_reached_ends_the_turn() {
        let none = Budget::default();
        let check = |budget: Budget, expect: Option<BudgetKind>| {
            assert_eq!(spent(budget, None, Some(0.5), 60), expect, "{budget:?}");
        };
        let tokens = |tokens| Budget {
            tokens: Some(tokens),
            ..none
        };
        let cost = |cost| Budget {
            cost: Some(cost),
            ..none
        };
        let turns = |turns| Budget {
            turns: Some(turns),
            ..none
        };
        let check_time = |seconds, expect: Option<BudgetKind>| {
            let limit = Some(Duration::from_secs(seconds));
            assert_eq!(spent(none, limit, Some(0.5), 60), expect, "{limit:?}");
        };
        check(none, None);
        check(tokens(101), None);
        check(tokens(100), Some(BudgetKind::Tokens));
        check(cost(0.51), None);
        check(cost(0.5), Some(BudgetKind::Cost));
        check(turns(2), None);
        check(turns(1), Some(BudgetKind::Turns));
        check_time(61, None);
        check_time(60, Some(BudgetKind::Time));
    }

    #[test]
    fn an_unknown_price_makes_the_sum_unknown() {
        let mut ledger = BudgetLedger::new(Budget::default(), None, Spending::none());
        ledger.add_request(Usage::default(), Some(1.0));
        assert_eq!(ledger.spending(Duration::ZERO).cost, Some(1.0));
        ledger.add_request(Usage::default(), None);
        assert_eq!(ledger.spending(Duration::ZERO).cost, None);
        assert_eq!(
            spent(
                Budget {
                    cost: Some(0.1),
                    ..Budget::default()
                },
                None,
                None,
                0
            ),
            None
        );
    }
}
