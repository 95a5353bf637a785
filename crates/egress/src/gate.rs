//! Decides on a target: by a rule, or by asking for approval.
//!
//! The question shows exactly what is connected to: a name in canonical spelling, plain ASCII and of
//! bounded length, or a public address. A name is never resolved before the answer, because a DNS
//! query already sends information to the servers of the name. Private, loopback and metadata
//! addresses are refused without a question, and an approved name does not open such an address
//! either. Entry type: [`EgressGate`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::address::AddressClass;
use crate::connection::DenialReason;
use crate::host::{ConnectTarget, Host};
use crate::host_addresses::classify_on_host;
use crate::pending::PendingQuestions;
use crate::policy::{EgressAction, EgressPolicy};
use crate::resolve::{Resolver, SystemResolver};
use crate::rules::{AllowList, EgressRule};
use crate::shared_policy::SharedPolicy;

/// Longer names are refused without a question, because users would not read them completely.
const MAX_ASKED_NAME_LEN: usize = 128;

/// Suffixes of names that are not part of the public internet.
const LOCAL_SUFFIXES: [&str; 9] = [
    "localhost",
    "local",
    "internal",
    "intranet",
    "lan",
    "home",
    "home.arpa",
    "corp",
    "private",
];

/// Asks for approval of a host.
pub trait HostApprover: Send + Sync {
    /// Asks whether `target` may be reached. `rule` is the rule that says to ask, if there is one. The
    /// future is dropped when no connection waits for the answer any more.
    fn ask(&self, target: &ConnectTarget, rule: Option<&EgressRule>) -> HostApprovalFuture;
}

/// The future answer.
pub type HostApprovalFuture = Pin<Box<dyn Future<Output = HostApproval> + Send>>;

/// The answer to a question. `because` goes into the record and, for a denial, to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostApproval {
    Allowed { because: String },
    Denied { because: String },
}

/// What a sandbox may reach: rules that can be extended, and optionally approval for other hosts.
/// Clones share the state.
#[derive(Clone)]
pub struct EgressGate {
    hosts: SharedPolicy,
    asker: Option<Arc<dyn HostApprover>>,
    resolver: Arc<dyn Resolver>,
    waiting: Arc<PendingQuestions>,
}

/// A target that may be reached.
#[derive(Debug)]
pub(crate) struct EgressAdmission {
    pub(crate) rule: EgressRule,
    pub(crate) because: String,
    /// The policy by which the resolved addresses are checked.
    pub(crate) policy: Arc<EgressPolicy>,
}

impl From<SharedPolicy> for EgressGate {
    fn from(hosts: SharedPolicy) -> EgressGate {
        EgressGate {
            hosts,
            asker: None,
            resolver: Arc::new(SystemResolver),
            waiting: Arc::default(),
        }
    }
}

impl From<AllowList> for EgressGate {
    fn from(allow: AllowList) -> EgressGate {
        EgressGate::from(SharedPolicy::from(EgressPolicy::from(allow)))
    }
}

impl EgressGate {
    /// Asks for approval of hosts that no rule allows or denies.
    #[must_use]
    pub fn with_approver(self, asker: Arc<dyn HostApprover>) -> EgressGate {
        EgressGate {
            asker: Some(asker),
            ..self
        }
    }

    /// Uses another resolver than the host's.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> EgressGate {
        EgressGate { resolver, ..self }
    }

    /// The rules.
    pub fn hosts(&self) -> &SharedPolicy {
        &self.hosts
    }

    /// Whether approval can be requested for other hosts.
    pub fn asks(&self) -> bool {
        self.asker.is_some()
    }

    pub(crate) fn resolver(&self) -> Arc<dyn Resolver> {
        Arc::clone(&self.resolver)
    }

    /// Decides on a target. Waits for an answer if approval is needed.
    pub(crate) async fn admit(
        &self,
        target: &ConnectTarget,
    ) -> Result<EgressAdmission, DenialReason> {
        loop {
            let policy = self.hosts.policy();
            let found = policy.find(target);
            if let Some(settled) = apply_rule(&policy, found, target) {
                return settled;
            }
            let rule = found.map(|(rule, _)| rule);
            let asker = self.asker.as_ref().ok_or_else(|| unasked(target, rule))?;
            check_askable(target)?;
            let is_settled = || self.hosts.policy().find(target) != found;
            match self.waiting.ask(asker, target, rule, is_settled).await {
                Some(HostApproval::Allowed { because }) => {
                    return Ok(EgressAdmission {
                        rule: EgressRule::from(target),
                        because,
                        // The answer may have changed the policy.
                        policy: self.hosts.policy(),
                    });
                }
                Some(HostApproval::Denied { because }) => {
                    let target = target.clone();
                    return Err(DenialReason::Refused { target, because });
                }
                // The rules have changed in the meantime: decide again.
                None => {}
            }
        }
    }
}

/// The decision of the matching rule, unless it says to ask.
fn apply_rule(
    policy: &Arc<EgressPolicy>,
    found: Option<(&EgressRule, EgressAction)>,
    target: &ConnectTarget,
) -> Option<Result<EgressAdmission, DenialReason>> {
    match found? {
        (rule, EgressAction::Allow) => Some(Ok(EgressAdmission {
            rule: rule.clone(),
            because: rule.to_string(),
            policy: Arc::clone(policy),
        })),
        (rule, EgressAction::Deny) => Some(Err(DenialReason::Denied {
            rule: rule.clone(),
            target: target.clone(),
        })),
        (_, EgressAction::Ask) => None,
    }
}

/// The denial if approval cannot be requested.
fn unasked(target: &ConnectTarget, rule: Option<&EgressRule>) -> DenialReason {
    let target = target.clone();
    match rule {
        Some(rule) => DenialReason::Refused {
            target,
            because: format!("rule `{rule}` says to ask, and nobody can be asked here"),
        },
        None => DenialReason::NoRule { target },
    }
}

/// Refuses targets for which approval must not be requested. Resolves nothing.
fn check_askable(target: &ConnectTarget) -> Result<(), DenialReason> {
    let name = match &target.host {
        Host::Address(address) => {
            return match classify_on_host(*address) {
                AddressClass::Public => Ok(()),
                class => Err(DenialReason::NotPublic {
                    name: target.host.to_string(),
                    class,
                    address: *address,
                    port: target.port,
                }),
            };
        }
        Host::Name(name) => name,
    };
    let refused = |because: &str| {
        Err(DenialReason::Refused {
            target: target.clone(),
            because: because.to_owned(),
        })
    };
    let is_below = |last: &&str| {
        name.strip_suffix(*last)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    match () {
        () if name.len() > MAX_ASKED_NAME_LEN => refused("the name is too long to be asked about"),
        () if !name.contains('.') || LOCAL_SUFFIXES.iter().any(is_below) => {
            refused("the name is not one of the public internet")
        }
        () => Ok(()),
    }
}

impl fmt::Debug for EgressGate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gate")
            .field("hosts", &self.hosts)
            .field("asks", &self.asks())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_hosts_are_asked_about() {
        let check = |target: &str, expect: Result<(), &str>| {
            let target = ConnectTarget::parse(target, None).unwrap();
            let found = check_askable(&target).map_err(|reason| reason.to_string());
            assert_eq!(found.as_ref().map_err(String::as_str).copied(), expect);
        };
        check("pypi.org:443", Ok(()));
        check("xn--pypi-4ve.org:443", Ok(()));
        check("at.myhome:443", Ok(()));
        check("8.8.8.8:53", Ok(()));
        check("[2606:4700::1]:443", Ok(()));
        for (target, expect) in [
            (
                "127.0.0.1:80",
                "`127.0.0.1` resolves to the loopback address 127.0.0.1",
            ),
            (
                "2130706433:80",
                "`127.0.0.1` resolves to the loopback address 127.0.0.1",
            ),
            ("[::1]:80", "`[::1]` resolves to the loopback address ::1"),
            (
                "0xa9fea9fe:80",
                "`169.254.169.254` resolves to the cloud metadata address 169.254.169.254",
            ),
            (
                "192.168.1.1:80",
                "`192.168.1.1` resolves to the private address 192.168.1.1",
            ),
            (
                "localhost:80",
                "`localhost:80` is not opened: the name is not one of the public internet",
            ),
            (
                "a.localhost:80",
                "`a.localhost:80` is not opened: the name is not one of the public internet",
            ),
            (
                "printer:631",
                "`printer:631` is not opened: the name is not one of the public internet",
            ),
            (
                "metadata.google.internal:80",
                "`metadata.google.internal:80` is not opened: the name is not one of the public \
                 internet",
            ),
        ] {
            check(target, Err(expect));
        }
        let long = format!("{}.{}.com:443", "a".repeat(63), "b".repeat(63));
        let because = format!("`{long}` is not opened: the name is too long to be asked about");
        check(&long, Err(&because));
    }
}
