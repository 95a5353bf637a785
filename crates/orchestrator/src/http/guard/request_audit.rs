//! Records requested changes and refused requests in the server's audit log.
//!
//! A change starts after its request is recorded, and is answered after its outcome is recorded. So
//! a server that is killed at any time has recorded everything it did. When the log cannot be
//! written, changes are refused. Repeated refusals are folded and written without waiting. Never
//! records bodies or tokens.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use audit::{AuditLog, AuditRecord, FoldLimits, FoldedLine, RepeatFold};
use axum::http::{Method, StatusCode};
use tokio::time::timeout;
use uuid::Uuid;

use crate::app::Caller;
use crate::http::problem::{HttpProblem, ProblemKind};

/// How long a request waits for its audit record.
const APPEND_TIMEOUT: Duration = Duration::from_secs(5);

/// How long shutdown waits for pending records.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);

/// At most 33 records per minute.
const REFUSAL_FOLD_LIMITS: FoldLimits = FoldLimits {
    window: Duration::from_secs(60),
    keys: 32,
    lines: u64::MAX,
};

/// Used in place of a sandbox name.
const SERVER_NAME: &str = "server";

/// Recorded status of a request whose client disconnected before the response.
const CLIENT_GONE_STATUS: u16 = 499;

#[derive(Debug)]
pub(crate) struct RequestAudit {
    log: Arc<AuditLog>,
    refusals: Mutex<RepeatFold<RefusedRequest>>,
}

/// A requested change.
#[derive(Debug, Clone)]
pub(crate) struct AuditedRequest {
    pub(crate) id: Uuid,
    pub(crate) remote: IpAddr,
    pub(crate) who: AuditIdentity,
    pub(crate) method: Method,
    pub(crate) path: String,
}

/// What is known of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct AuditIdentity {
    user: String,
    key: Option<Uuid>,
}

impl From<&Caller> for AuditIdentity {
    fn from(caller: &Caller) -> Self {
        Self {
            user: caller.user.clone(),
            key: caller.key,
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RefusedRequest {
    pub(crate) remote: IpAddr,
    pub(crate) who: AuditIdentity,
    pub(crate) method: Method,
    pub(crate) route: String,
    pub(crate) status: StatusCode,
}

/// A change whose request is recorded. The outcome is recorded by [`PendingOutcome::end`] or on drop.
#[derive(Debug)]
pub(crate) struct PendingOutcome {
    log: Arc<AuditLog>,
    id: Uuid,
    is_ended: bool,
}

impl RequestAudit {
    pub(crate) fn new(log: Arc<AuditLog>) -> Self {
        Self {
            log,
            refusals: Mutex::new(RepeatFold::new(REFUSAL_FOLD_LIMITS)),
        }
    }

    /// Records a requested change before it is made.
    pub(crate) async fn begin(&self, asked: AuditedRequest) -> Result<PendingOutcome, HttpProblem> {
        let AuditedRequest {
            id,
            remote,
            who,
            method,
            path,
        } = asked;
        let record = AuditRecord::Request {
            id: id.to_string(),
            remote: remote.to_string(),
            user: who.user,
            key: who.key.map(|key| key.to_string()),
            method: method.to_string(),
            path,
        };
        let line = PendingOutcome {
            log: Arc::clone(&self.log),
            id,
            is_ended: false,
        };
        let problem = match timeout(APPEND_TIMEOUT, self.log.append(SERVER_NAME, record)).await {
            Ok(Ok(())) => return Ok(line),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it takes too long".to_owned(),
        };
        tracing::error!(request = %id, %problem, "change refused: cannot write the audit log");
        // No outcome is recorded for a change that does not start.
        line.forget();
        Err(
            HttpProblem::new(ProblemKind::Unavailable, "cannot write the audit log")
                .hint("the server's log says why")
                .retry_after(5),
        )
    }

    /// Records a refused request, if the reason is the caller or the request rate.
    pub(crate) fn refused(&self, refused: RefusedRequest, now: Instant) {
        let is_of_caller = matches!(
            refused.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        if is_of_caller {
            let due = self.refusals().add(refused, now);
            self.write(due);
        }
    }

    fn write(&self, due: Vec<FoldedLine<RefusedRequest>>) {
        for FoldedLine { what, count } in due {
            let record = match what {
                Some(refused) => {
                    let RefusedRequest {
                        remote,
                        who,
                        method,
                        route,
                        status,
                    } = refused;
                    AuditRecord::Refusal {
                        remote: remote.to_string(),
                        user: who.user,
                        key: who.key.map(|key| key.to_string()),
                        method: method.to_string(),
                        route,
                        status: status.as_u16(),
                        count,
                    }
                }
                None => AuditRecord::Capped {
                    what: "refusals".to_owned(),
                    count,
                },
            };
            if let Err(error) = self.log.append_later(SERVER_NAME, record) {
                tracing::error!(%error, "audit entry is lost");
            }
        }
    }

    fn refusals(&self) -> MutexGuard<'_, RepeatFold<RefusedRequest>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PendingOutcome {
    /// Records the outcome before the response is sent. `user` is the user of a request that was
    /// not authenticated before.
    pub(crate) async fn end(mut self, user: Option<String>, status: StatusCode) {
        let record = self.record(user, status.as_u16());
        self.is_ended = true;
        // The change is made: respond even if this fails.
        match timeout(APPEND_TIMEOUT, self.log.append(SERVER_NAME, record)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(request = %self.id, %error, "audit entry is lost"),
            Err(_) => tracing::error!(request = %self.id, "audit entry is late"),
        }
    }

    fn forget(mut self) {
        self.is_ended = true;
    }

    fn record(&self, user: Option<String>, status: u16) -> AuditRecord {
        AuditRecord::Answer {
            id: self.id.to_string(),
            user,
            status,
        }
    }
}

impl Drop for PendingOutcome {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if let Err(error) = self
            .log
            .append_later(SERVER_NAME, self.record(None, CLIENT_GONE_STATUS))
        {
            tracing::error!(%error, "audit entry is lost");
        }
    }
}

impl Drop for RequestAudit {
    fn drop(&mut self) {
        let due = self.refusals().finish();
        self.write(due);
        if let Err(error) = self.log.flush(FLUSH_TIMEOUT) {
            tracing::error!(%error, "cannot flush the audit log");
        }
    }
}
