//! Writes what a sandbox does into the audit log, if there is one.

use std::sync::Arc;

use audit::{AuditLog, Record};
use tracing::error;

use crate::error::SandboxError;

/// The record of one sandbox. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    sandbox: Arc<str>,
    log: Option<Arc<AuditLog>>,
}

impl Recorder {
    pub(crate) fn new(sandbox: &str, log: Option<Arc<AuditLog>>) -> Self {
        Self {
            sandbox: sandbox.into(),
            log,
        }
    }

    /// Records before the thing is done: what cannot be recorded is not done.
    pub(crate) fn record(&self, record: &Record) -> Result<(), SandboxError> {
        if let Some(log) = &self.log {
            log.append(&self.sandbox, record)?;
        }
        Ok(())
    }

    /// Records what has happened already.
    pub(crate) fn note(&self, record: &Record) {
        if let Err(error) = self.record(record) {
            error!(sandbox = %self.sandbox, %error, "audit record lost");
        }
    }
}
