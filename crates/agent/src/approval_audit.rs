//! Records approvals in the audit log, if there is one. Entry type: [`ApprovalAudit`].

use std::sync::Arc;

use audit::{AuditLog, AuditRecord};
use protocol::{Decision, Question, Scope};
use tracing::error;

use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct ApprovalAudit {
    /// The sandbox's name in the log.
    name: String,
    log: Option<Arc<AuditLog>>,
}

impl ApprovalAudit {
    pub(crate) fn new(name: String, log: Option<Arc<AuditLog>>) -> Self {
        Self { name, log }
    }

    /// Records a user's answer, before it takes effect.
    pub(crate) async fn record_answer(
        &self,
        question: &Question,
        decision: Decision,
    ) -> Result<(), AgentError> {
        let scope = match decision.scope {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        };
        let decided = allowed_or_denied(decision.is_allowed);
        let record = approval_record(&question.what, decided, Some(scope), "person");
        self.record(record).await
    }

    /// Records a question that will not be answered.
    pub(crate) fn record_unanswered(&self, question: &Question) {
        let record = approval_record(&question.what, "unanswered", None, "person");
        if let Some(log) = &self.log
            && let Err(error) = log.append_later(&self.name, record)
        {
            error!(%error, "audit record lost");
        }
    }

    /// Records a decision made by a rule.
    pub(crate) async fn record_rule(
        &self,
        what: &str,
        is_allowed: bool,
        rule: &str,
    ) -> Result<(), AgentError> {
        let by = format!("rule `{rule}`");
        let record = approval_record(what, allowed_or_denied(is_allowed), None, &by);
        self.record(record).await
    }

    /// Records that the user allowed a host.
    pub(crate) async fn record_allowed_host(&self, host: &str) -> Result<(), AgentError> {
        let what = format!("connect to {host}");
        let record = approval_record(&what, "allowed", Some("session"), "person");
        self.record(record).await
    }

    async fn record(&self, record: AuditRecord) -> Result<(), AgentError> {
        match &self.log {
            Some(log) => Ok(log.append(&self.name, record).await?),
            None => Ok(()),
        }
    }
}

fn approval_record(what: &str, decision: &str, scope: Option<&str>, by: &str) -> AuditRecord {
    AuditRecord::Approval {
        what: what.to_owned(),
        decision: decision.to_owned(),
        scope: scope.map(str::to_owned),
        by: by.to_owned(),
    }
}

fn allowed_or_denied(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}
