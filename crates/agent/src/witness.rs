//! Puts what was decided into the audit log, if there is one. Entry type: [`Witness`].

use std::sync::Arc;

use audit::{AuditLog, Record};
use protocol::{Decision, Question, Scope};
use tracing::error;

use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct Witness {
    /// What the log calls the session's sandbox.
    name: String,
    log: Option<Arc<AuditLog>>,
}

impl Witness {
    pub(crate) fn new(name: String, log: Option<Arc<AuditLog>>) -> Self {
        Self { name, log }
    }

    /// A person's answer, before anything follows from it.
    pub(crate) fn answered(
        &self,
        question: &Question,
        decision: Option<Decision>,
    ) -> Result<(), AgentError> {
        let scope = decision.map(|decision| match decision.scope {
            Scope::Once => "once",
            Scope::Session => "session",
            Scope::Always => "always",
        });
        let decided = match decision {
            Some(decision) => allowed_or_denied(decision.is_allowed),
            None => "unanswered",
        };
        self.record(&question.what, decided, scope, "person")
    }

    /// A question that nobody will answer.
    pub(crate) fn unanswered(&self, question: &Question) {
        if let Err(error) = self.answered(question, None) {
            error!(%error, "audit record lost");
        }
    }

    /// What a rule said.
    pub(crate) fn ruled(&self, what: &str, is_allowed: bool, rule: &str) -> Result<(), AgentError> {
        let by = format!("rule `{rule}`");
        self.record(what, allowed_or_denied(is_allowed), None, &by)
    }

    /// A person opened a host.
    pub(crate) fn opened(&self, host: &str) -> Result<(), AgentError> {
        let what = format!("connect to {host}");
        self.record(&what, "allowed", Some("session"), "person")
    }

    fn record(
        &self,
        what: &str,
        decision: &str,
        scope: Option<&str>,
        by: &str,
    ) -> Result<(), AgentError> {
        let Some(log) = &self.log else {
            return Ok(());
        };
        let record = Record::Approval {
            what: what.to_owned(),
            decision: decision.to_owned(),
            scope: scope.map(str::to_owned),
            by: by.to_owned(),
        };
        Ok(log.append(&self.name, &record)?)
    }
}

fn allowed_or_denied(is_allowed: bool) -> &'static str {
    match is_allowed {
        true => "allowed",
        false => "denied",
    }
}
