//! Sees to it that every attempt is told of, exactly once, whatever happens to it.
//!
//! An [`Attempt`] lives as long as the work on it. Work can be dropped at any await, when a client
//! goes away or a sandbox ends; what was not told by then is told by the drop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::connection::{Connection, Reason, Verdict};
use crate::egress::Egress;
use crate::host::Target;
use crate::rules::Rule;

#[derive(Debug)]
pub(crate) struct Attempt {
    egress: Arc<Egress>,
    pub(crate) target: Target,
    /// Once connected.
    admitted: Option<Admitted>,
    told: AtomicBool,
}

#[derive(Debug)]
struct Admitted {
    rule: Rule,
    because: String,
    address: SocketAddr,
}

impl Attempt {
    pub(crate) fn new(egress: &Arc<Egress>, target: &Target) -> Attempt {
        let (egress, target) = (Arc::clone(egress), target.clone());
        Attempt {
            egress,
            target,
            admitted: None,
            told: AtomicBool::new(false),
        }
    }

    /// Keeps what is to be told if nothing goes wrong from here.
    pub(crate) fn admit(&mut self, rule: Rule, because: String, address: SocketAddr) {
        self.admitted = Some(Admitted {
            rule,
            because,
            address,
        });
    }

    /// The rule that let it through names the port.
    pub(crate) fn names_port(&self) -> bool {
        self.admitted
            .as_ref()
            .is_some_and(|admitted| admitted.rule.names_port())
    }

    /// Tells that it went through, unless it was told of before.
    pub(crate) fn allowed(&self) {
        if let Some(admitted) = &self.admitted
            && !self.told.swap(true, Ordering::Relaxed)
        {
            self.tell(Verdict::Allowed {
                rule: admitted.because.clone(),
            });
        }
    }

    /// Tells that it did not. After [`Attempt::allowed`] this is another attempt, on the same
    /// connection, and told as such.
    pub(crate) fn denied(&self, reason: Reason) {
        self.told.store(true, Ordering::Relaxed);
        self.tell(Verdict::Denied { reason });
    }

    fn tell(&self, verdict: Verdict) {
        let address = match (&verdict, &self.admitted) {
            (
                Verdict::Denied {
                    reason: Reason::NotPublic { address, port, .. },
                },
                _,
            ) => Some(SocketAddr::new(*address, *port)),
            (_, Some(admitted)) => Some(admitted.address),
            (_, None) => None,
        };
        self.egress.tell(Connection {
            host: self.target.host.to_string(),
            port: self.target.port,
            address,
            verdict,
        });
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.allowed();
        if !self.told.load(Ordering::Relaxed) {
            self.denied(Reason::Abandoned {
                target: self.target.clone(),
            });
        }
    }
}
