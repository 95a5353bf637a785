//! Ensures that every connection attempt is reported exactly once.
//!
//! An [`EgressAttempt`] lives as long as the work on it. The work can be dropped at any await, when a client
//! disconnects or a sandbox ends. An attempt that has not been reported by then is reported on drop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::connection::{ConnectionRecord, ConnectionVerdict, DenialReason};
use crate::egress::Egress;
use crate::host::ConnectTarget;
use crate::rules::EgressRule;

#[derive(Debug)]
pub(crate) struct EgressAttempt {
    egress: Arc<Egress>,
    pub(crate) target: ConnectTarget,
    /// Set once connected.
    admitted: Option<AdmittedTarget>,
    told: AtomicBool,
}

#[derive(Debug)]
struct AdmittedTarget {
    rule: EgressRule,
    because: String,
    address: SocketAddr,
}

impl EgressAttempt {
    pub(crate) fn new(egress: &Arc<Egress>, target: &ConnectTarget) -> EgressAttempt {
        let (egress, target) = (Arc::clone(egress), target.clone());
        EgressAttempt {
            egress,
            target,
            admitted: None,
            told: AtomicBool::new(false),
        }
    }

    /// Stores what is reported if nothing fails from here on.
    pub(crate) fn admit(&mut self, rule: EgressRule, because: String, address: SocketAddr) {
        self.admitted = Some(AdmittedTarget {
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
            self.tell(ConnectionVerdict::Allowed {
                rule: admitted.because.clone(),
            });
        }
    }

    /// Reports that it was denied. If it was reported as allowed before, this counts as another attempt
    /// on the same connection and is reported as well.
    pub(crate) fn denied(&self, reason: DenialReason) {
        self.told.store(true, Ordering::Relaxed);
        self.tell(ConnectionVerdict::Denied { reason });
    }

    fn tell(&self, verdict: ConnectionVerdict) {
        let address = match (&verdict, &self.admitted) {
            (
                ConnectionVerdict::Denied {
                    reason: DenialReason::NotPublic { address, port, .. },
                },
                _,
            ) => Some(SocketAddr::new(*address, *port)),
            (_, Some(admitted)) => Some(admitted.address),
            (_, None) => None,
        };
        self.egress.tell(ConnectionRecord {
            host: self.target.host.to_string(),
            port: self.target.port,
            address,
            verdict,
        });
    }
}

impl Drop for EgressAttempt {
    fn drop(&mut self) {
        self.allowed();
        if !self.told.load(Ordering::Relaxed) {
            self.denied(DenialReason::Abandoned {
                target: self.target.clone(),
            });
        }
    }
}
