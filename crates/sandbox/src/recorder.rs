//! Writes the actions of a sandbox to the audit log, if there is one.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use audit::{AuditLog, AuditRecord};
use tracing::error;

use crate::error::SandboxError;

/// The audit log of one sandbox. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct AuditRecorder {
    sandbox: Arc<str>,
    log: Option<Arc<AuditLog>>,
    /// Number of commands so far.
    execs: Arc<AtomicU64>,
}

impl AuditRecorder {
    pub(crate) fn new(sandbox: &str, log: Option<Arc<AuditLog>>) -> Self {
        Self {
            sandbox: sandbox.into(),
            log,
            execs: Arc::default(),
        }
    }

    /// Records an action before it happens; the action must not happen if this fails.
    pub(crate) async fn record(&self, record: AuditRecord) -> Result<(), SandboxError> {
        if let Some(log) = &self.log {
            log.append(&self.sandbox, record).await?;
        }
        Ok(())
    }

    /// Records a past event, and waits until it is written.
    pub(crate) async fn record_past(&self, record: AuditRecord) {
        if let Err(error) = self.record(record).await {
            error!(sandbox = %self.sandbox, %error, "audit record lost");
        }
    }

    /// Records a past event without waiting.
    pub(crate) fn record_detached(&self, record: AuditRecord) {
        if let Some(log) = &self.log
            && let Err(error) = log.append_later(&self.sandbox, record)
        {
            error!(sandbox = %self.sandbox, %error, "audit record lost");
        }
    }

    /// Records that a command is about to start.
    pub(crate) async fn begin(&self, command: ExecDetails) -> Result<ExecRecord, SandboxError> {
        let exec = self.execs.fetch_add(1, Ordering::Relaxed) + 1;
        let ExecDetails {
            argv,
            cwd,
            env_names,
            terminal,
        } = command;
        let record = AuditRecord::Exec {
            exec,
            argv,
            cwd,
            env_names,
            terminal,
        };
        self.record(record).await?;
        Ok(ExecRecord {
            recorder: self.clone(),
            exec,
            begun: Instant::now(),
            bytes: 0,
            is_ended: false,
        })
    }
}

/// The recorded details of a command that starts.
#[derive(Debug)]
pub(crate) struct ExecDetails {
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: String,
    pub(crate) env_names: Vec<String>,
    pub(crate) terminal: bool,
}

/// A command whose start is recorded. Its end is always recorded too, at the latest on drop.
#[derive(Debug)]
pub(crate) struct ExecRecord {
    recorder: AuditRecorder,
    pub(crate) exec: u64,
    begun: Instant,
    /// Bytes printed.
    bytes: u64,
    is_ended: bool,
}

impl ExecRecord {
    pub(crate) fn printed(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    pub(crate) fn set_total_output(&mut self, bytes: u64) {
        self.bytes = self.bytes.max(bytes);
    }

    pub(crate) async fn end(&mut self, outcome: String) {
        if !std::mem::replace(&mut self.is_ended, true) {
            self.recorder.record_past(self.record(outcome)).await;
        }
    }

    fn record(&self, outcome: String) -> AuditRecord {
        AuditRecord::ExecEnd {
            exec: self.exec,
            outcome,
            millis: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            bytes: self.bytes,
        }
    }
}

impl Drop for ExecRecord {
    fn drop(&mut self) {
        if !self.is_ended {
            // The caller stopped waiting, which interrupts or kills the command.
            self.recorder
                .record_detached(self.record("abandoned".to_owned()));
        }
    }
}
