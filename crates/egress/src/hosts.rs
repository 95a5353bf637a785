//! A [`Policy`] that can be extended while sandboxes run. Entry type: [`Hosts`].

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use crate::policy::{Policy, Stance};
use crate::rules::Rule;

/// The current rules. Clones share them.
#[derive(Clone, Default)]
pub struct Hosts {
    policy: Arc<RwLock<Arc<Policy>>>,
}

impl From<Policy> for Hosts {
    fn from(policy: Policy) -> Hosts {
        Hosts {
            policy: Arc::new(RwLock::new(Arc::new(policy))),
        }
    }
}

impl Hosts {
    /// A snapshot of the rules.
    pub fn policy(&self) -> Arc<Policy> {
        // The lock is held for single statements only, so a panic cannot leave a partial change.
        let policy = self.policy.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&policy)
    }

    /// Adds standing rules, effective from the next connection.
    pub fn extend(&self, rules: &Policy) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).extend(rules);
    }

    /// Adds an answer of a user, effective from the next connection.
    pub fn answer(&self, rule: Rule, stance: Stance) {
        let mut policy = self.policy.write().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut policy).answer(rule, stance);
    }

    /// The hosts that can be reached without a question, in the syntax of rules.
    pub fn open(&self) -> Vec<String> {
        let allowed = self.policy().allowed();
        allowed.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Debug for Hosts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.policy().fmt(f)
    }
}
