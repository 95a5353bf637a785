//! A [`EgressPolicy`] that can be extended while sandboxes run. Entry type: [`SharedPolicy`].

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::policy::{EgressAction, EgressPolicy};
use crate::rules::EgressRule;

/// The current rules. Clones share them.
#[derive(Clone, Default)]
pub struct SharedPolicy {
    policy: Arc<RwLock<Arc<EgressPolicy>>>,
}

impl From<EgressPolicy> for SharedPolicy {
    fn from(policy: EgressPolicy) -> SharedPolicy {
        SharedPolicy {
            policy: Arc::new(RwLock::new(Arc::new(policy))),
        }
    }
}

impl SharedPolicy {
    /// A snapshot of the rules.
    pub fn policy(&self) -> Arc<EgressPolicy> {
        // The lock is held for single statements only, so a panic cannot leave a partial change.
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&policy)
    }

    /// Adds standing rules, effective from the next connection.
    pub fn extend(&self, rules: &EgressPolicy) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).extend(rules);
    }

    /// Adds an answer of a user, effective from the next connection.
    pub fn answer(&self, rule: EgressRule, stance: EgressAction) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).answer(rule, stance);
    }

    /// The hosts that can be reached without a question, in the syntax of rules.
    pub fn open(&self) -> Vec<String> {
        let allowed = self.policy().allowed();
        allowed.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Debug for SharedPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy().fmt(f)
    }
}
