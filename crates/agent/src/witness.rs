//! Records approvals in the audit log, if there is one. Entry type: [`Witness`].

use std::sync::Arc;

use audit::{AuditLog, Record};
use protocol::{Decision, Question, Scope};
use tracing::error;

use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct Witness {
    /// The sandbox's name in the log.
    name: String,
    log: Option<Arc<AuditLog>>,
}

impl Witness {
    pub(crate) fn new(name: String, log: Option<Arc<AuditLog>>) -> Self {
        Self { name, log }
    }

    /// Records a user's answer, before it takes effect.
    pub(crate) async fn answered(
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
        let record = approval(&question.what, decided, Some(scope), "person");
        self.record(record).await
    }

    /// Records a question that will not be answered.
    pub(crate) fn unanswered(&self, question: &Question) {
        let record = approval(&question.what, "unanswered", None, "person");
        if let Some(log) = &self.log
            && let Err(error) = log.append_later(&self.name, record)
        {
            error!(%error, "audit record lost");
        }
    }

    /// Records a decision made by a rule.
    pub(crate) async fn ruled(
        &self,
        what: &str,
        is_allowed: bool,
        rule: &str,
    ) -> Result<(), AgentError> {
        let by = format!("rule `{rule}`");
        let record = approval(what, allowed_or_denied(is_allowed), None, &by);
        self.record(record).await
    }

    /// Records that the user allowed a host.
    pub(crate) async fn opened(&self, host: &str) -> Result<(), AgentError> {
        let what = format!("connect to {host}");
        let record = approval(&what, "allowed", Some("session"), "person");
        self.record(record).await
    }

    async fn record(&self, record: Record) -> Result<(), AgentError> {
        match &self.log {
            Some(log) => Ok(log.append(&self.name, record).await?),
            None => Ok(()),
        }
    }
}

fn approval(what: &str, decision: &str, scope: Option<&str>, by: &str) -> Record {
    Record::Approval {
        what: what.to_owned(),
        decision: decision.to_owned(),
        scope: scope.map(str::to_owned),
        by: by.to_owned(),
    }
}

fn allowed_or_denied(is_allowed: bool) -> &'static str {
    if is_allowed { "allowed" } else { "denied" }
}
