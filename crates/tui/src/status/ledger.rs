//! Usage per model.

use std::collections::BTreeMap;

use protocol::Usage;

/// Requests with their usage and cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct UsageTotal {
    pub(crate) usage: Usage,
    /// In US dollars; absent when any part of it is unknown.
    pub(crate) cost: Option<f64>,
    pub(crate) requests: u32,
}

impl Default for UsageTotal {
    fn default() -> Self {
        Self {
            usage: Usage::default(),
            cost: Some(0.0),
            requests: 0,
        }
    }
}

impl UsageTotal {
    pub(crate) fn add(&mut self, usage: Usage, cost: Option<f64>, requests: u32) {
        self.usage += usage;
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
        self.requests += requests;
    }
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UsageLedger {
    totals: BTreeMap<String, UsageTotal>,
}

impl UsageLedger {
    pub(crate) fn add(&mut self, model: &str, usage: Usage, cost: Option<f64>) {
        let total = self.totals.entry(model.to_owned()).or_default();
        total.add(usage, cost, 1);
    }

    pub(crate) fn totals(&self) -> impl Iterator<Item = (&str, &UsageTotal)> {
        self.totals
            .iter()
            .map(|(model, total)| (model.as_str(), total))
    }

    pub(crate) fn all(&self) -> UsageTotal {
        let mut all = UsageTotal::default();
        for total in self.totals.values() {
            all.add(total.usage, total.cost, total.requests);
        }
        all
    }
}
