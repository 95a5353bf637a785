//! Decides on a target: by a rule, or by asking for approval.
//!
//! The question shows exactly what is connected to: a name in canonical spelling, plain ASCII and of
//! bounded length, or a public address. A name is never resolved before the answer, because a DNS
//! query already sends information to the servers of the name. Private, loopback and metadata
//! addresses are refused without a question, and an approved name does not open such an address
//! either. Entry type: [`Gate`].

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use crate::address::Class;
use crate::connection::Reason;
use crate::host::{Host, Target};
use crate::hosts::Hosts;
use crate::own::class_on_host;
use crate::policy::{Policy, Stance};
use crate::resolve::{Resolver, SystemResolver};
use crate::rules::{Allow, Rule};
use crate::waiting::Waiting;

/// Longer names are refused without a question, because users would not read them completely.
const LONGEST_NAME: usize = 128;

/// Suffixes of names that are not part of the public internet.
const LOCAL: [&str; 9] = [
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
pub trait Asker: Send + Sync {
    /// Asks whether `target` may be reached. `rule` is the rule that says to ask, if there is one. The
    /// future is dropped when no connection waits for the answer any more.
    fn ask(&self, target: &Target, rule: Option<&Rule>) -> Asked;
}

/// The future answer.
pub type Asked = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// The answer to a question. `because` goes into the record and, for a denial, to the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Allowed { because: String },
    Denied { because: String },
}

/// What a sandbox may reach: rules that can be extended, and optionally approval for other hosts.
/// Clones share the state.
#[derive(Clone)]
pub struct Gate {
    hosts: Hosts,
    asker: Option<Arc<dyn Asker>>,
    resolver: Arc<dyn Resolver>,
    waiting: Arc<Waiting>,
}

/// A target that may be reached.
#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) rule: Rule,
    pub(crate) because: String,
    /// The policy by which the resolved addresses are checked.
    pub(crate) policy: Arc<Policy>,
}

impl From<Hosts> for Gate {
    fn from(hosts: Hosts) -> Gate {
        Gate {
            hosts,
            asker: None,
            resolver: Arc::new(SystemResolver),
            waiting: Arc::default(),
        }
    }
}

impl From<Allow> for Gate {
    fn from(allow: Allow) -> Gate {
        Gate::from(Hosts::from(Policy::from(allow)))
    }
}

impl Gate {
    /// Asks for approval of hosts that no rule allows or denies.
    #[must_use]
    pub fn with_asker(self, asker: Arc<dyn Asker>) -> Gate {
        Gate {
            asker: Some(asker),
            ..self
        }
    }

    /// Uses another resolver than the host's.
    #[must_use]
    pub fn with_resolver(self, resolver: Arc<dyn Resolver>) -> Gate {
        Gate { resolver, ..self }
    }

    /// The rules.
    pub fn hosts(&self) -> &Hosts {
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
    pub(crate) async fn admit(&self, target: &Target) -> Result<Admission, Reason> {
        loop {
            let policy = self.hosts.policy();
            let found = policy.find(target);
            if let Some(settled) = settle(&policy, found, target) {
                return settled;
            }
            let rule = found.map(|(rule, _)| rule);
            let asker = self.asker.as_ref().ok_or_else(|| unasked(target, rule))?;
            check_public(target)?;
            let is_settled = || self.hosts.policy().find(target) != found;
            match self.waiting.ask(asker, target, rule, is_settled).await {
                Some(Answer::Allowed { because }) => {
                    return Ok(Admission {
                        rule: Rule::from(target),
                        because,
                        // The answer may have changed the policy.
                        policy: self.hosts.policy(),
                    });
                }
                Some(Answer::Denied { because }) => {
                    let target = target.clone();
                    return Err(Reason::Refused { target, because });
                }
                // The rules have changed in the meantime: decide again.
                None => {}
            }
        }
    }
}

/// The decision of the matching rule, unless it says to ask.
fn settle(
    policy: &Arc<Policy>,
    found: Option<(&Rule, Stance)>,
    target: &Target,
) -> Option<Result<Admission, Reason>> {
    match found? {
        (rule, Stance::Allow) => Some(Ok(Admission {
            rule: rule.clone(),
            because: rule.to_string(),
            policy: Arc::clone(policy),
        })),
        (rule, Stance::Deny) => Some(Err(Reason::Denied {
            rule: rule.clone(),
            target: target.clone(),
        })),
        (_, Stance::Ask) => None,
    }
}

/// The denial if approval cannot be requested.
fn unasked(target: &Target, rule: Option<&Rule>) -> Reason {
    let target = target.clone();
    match rule {
        Some(rule) => Reason::Refused {
            target,
            because: format!("rule `{rule}` says to ask, and nobody can be asked here"),
        },
        None => Reason::NoRule { target },
    }
}

/// Refuses targets for which approval must not be requested. Resolves nothing.
fn check_public(target: &Target) -> Result<(), Reason> {
    let name = match &target.host {
        Host::Address(address) => {
            return match class_on_host(*address) {
                Class::Public => Ok(()),
                class => Err(Reason::NotPublic {
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
        Err(Reason::Refused {
            target: target.clone(),
            because: because.to_owned(),
        })
    };
    let is_below = |last: &&str| {
        name.strip_suffix(*last)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    };
    match () {
        () if name.len() > LONGEST_NAME => refused("the name is too long to be asked about"),
        () if !name.contains('.') || LOCAL.iter().any(is_below) => {
            refused("the name is not one of the public internet")
        }
        () => Ok(()),
    }
}

impl fmt::Debug for Gate {
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
            let target = Target::parse(target, None).unwrap();
            let found = check_public(&target).map_err(|reason| reason.to_string());
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
