//! Ensures that every connection attempt is reported exactly once.
//!
//! An [`Attempt`] lives as long as the work on it. The work can be dropped at any await, when a client
//! disconnects or a sandbox ends. An attempt that has not been reported by then is reported on drop.

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
    /// Set once connected.
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

    /// Stores what is reported if nothing fails from here on.
    pub(crate) fn admit(&mut self, rule: Rule, because: String, address: SocketAddr) {
        self.admitted = Some(Admitted {
            rule,
            because,
            address,
        });
    }

    /// Whether the rule that allowed it has a port.
    pub(crate) fn names_port(&self) -> bool {
        self.admitted
            .as_ref()
            .is_some_and(|admitted| admitted.rule.names_port())
    }

    /// Reports that it was allowed, unless it has been reported.
    pub(crate) fn allowed(&self) {
        if let Some(admitted) = &self.admitted
            && !self.told.swap(true, Ordering::Relaxed)
        {
            self.tell(Verdict::Allowed {
                rule: admitted.because.clone(),
            });
        }
    }

    /// Reports that it was denied. If it was reported as allowed before, this counts as another attempt
    /// on the same connection and is reported as well.
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
