//! Records requested changes and refused requests in the server's audit log.
//!
//! A change starts after its request is recorded, and is answered after its outcome is recorded. So
//! a server that is killed at any time has recorded everything it did. When the log cannot be
//! written, changes are refused. Repeated refusals are folded and written without waiting. Never
//! records bodies or tokens.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use audit::{AuditLog, Fold, FoldLimits, Folded, Record};
use axum::http::{Method, StatusCode};
use tokio::time::timeout;
use uuid::Uuid;

use crate::app::Caller;
use crate::http::problem::{Kind, Problem};

/// How long a request waits for its audit record.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long shutdown waits for pending records.
const FLUSH_PATIENCE: Duration = Duration::from_secs(5);

/// At most 33 records per minute.
const REFUSALS: FoldLimits = FoldLimits {
    window: Duration::from_secs(60),
    keys: 32,
    lines: u64::MAX,
};

/// Used in place of a sandbox name.
const SERVER: &str = "server";

/// Recorded status of a request whose client disconnected before the response.
const GONE: u16 = 499;

#[derive(Debug)]
pub(crate) struct Ledger {
    log: Arc<AuditLog>,
    refusals: Mutex<Fold<Refused>>,
}

/// A requested change.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) id: Uuid,
    pub(crate) remote: IpAddr,
    pub(crate) who: Seen,
    pub(crate) method: Method,
    pub(crate) path: String,
}

/// What is known of the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Seen {
    user: String,
    key: Option<Uuid>,
}

impl From<&Caller> for Seen {
    fn from(caller: &Caller) -> Self {
        Self {
            user: caller.user.clone(),
            key: caller.key,
        }
    }
}

/// A refused request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Refused {
    pub(crate) remote: IpAddr,
    pub(crate) who: Seen,
    pub(crate) method: Method,
    pub(crate) route: String,
    pub(crate) status: StatusCode,
}

/// A change whose request is recorded. The outcome is recorded by [`Line::end`] or on drop.
#[derive(Debug)]
pub(crate) struct Line {
    log: Arc<AuditLog>,
    id: Uuid,
    is_ended: bool,
}

impl Ledger {
    pub(crate) fn new(log: Arc<AuditLog>) -> Self {
        Self {
            log,
            refusals: Mutex::new(Fold::new(REFUSALS)),
        }
    }

    /// Records a requested change before it is made.
    pub(crate) async fn begin(&self, asked: Asked) -> Result<Line, Problem> {
        let Asked {
            id,
            remote,
            who,
            method,
            path,
        } = asked;
        let record = Record::Request {
            id: id.to_string(),
            remote: remote.to_string(),
            user: who.user,
            key: who.key.map(|key| key.to_string()),
            method: method.to_string(),
            path,
        };
        let line = Line {
            log: Arc::clone(&self.log),
            id,
            is_ended: false,
        };
        let problem = match timeout(PATIENCE, self.log.append(SERVER, record)).await {
            Ok(Ok(())) => return Ok(line),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "it takes too long".to_owned(),
        };
        tracing::error!(request = %id, %problem, "change refused: cannot write the audit log");
        // No outcome is recorded for a change that does not start.
        line.forget();
        Err(
            Problem::new(Kind::Unavailable, "cannot write the audit log")
                .hint("the server's log says why")
                .retry_after(5),
        )
    }

    /// Records a refused request, if the reason is the caller or the request rate.
    pub(crate) fn refused(&self, refused: Refused, now: Instant) {
        let is_of_caller = matches!(
            refused.status,
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS
        );
        if is_of_caller {
            let due = self.refusals().add(refused, now);
            self.write(due);
        }
    }

    fn write(&self, due: Vec<Folded<Refused>>) {
        for Folded { what, count } in due {
            let record = match what {
                Some(refused) => {
                    let Refused {
                        remote,
                        who,
                        method,
                        route,
                        status,
                    } = refused;
                    Record::Refusal {
                        remote: remote.to_string(),
                        user: who.user,
                        key: who.key.map(|key| key.to_string()),
                        method: method.to_string(),
                        route,
                        status: status.as_u16(),
                        count,
                    }
                }
                None => Record::Capped {
                    what: "refusals".to_owned(),
                    count,
                },
            };
            if let Err(error) = self.log.append_later(SERVER, record) {
                tracing::error!(%error, "audit entry is lost");
            }
        }
    }

    fn refusals(&self) -> MutexGuard<'_, Fold<Refused>> {
        self.refusals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Line {
    /// Records the outcome before the response is sent. `user` is the user of a request that was
    /// not authenticated before.
    pub(crate) async fn end(mut self, user: Option<String>, status: StatusCode) {
        let record = self.record(user, status.as_u16());
        self.is_ended = true;
        // The change is made: respond even if this fails.
        match timeout(PATIENCE, self.log.append(SERVER, record)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::error!(request = %self.id, %error, "audit entry is lost"),
            Err(_) => tracing::error!(request = %self.id, "audit entry is late"),
        }
    }

    fn forget(mut self) {
        self.is_ended = true;
    }

    fn record(&self, user: Option<String>, status: u16) -> Record {
        Record::Answer {
            id: self.id.to_string(),
            user,
            status,
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        if self.is_ended {
            return;
        }
        if let Err(error) = self.log.append_later(SERVER, self.record(None, GONE)) {
            tracing::error!(%error, "audit entry is lost");
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        let due = self.refusals().finish();
        self.write(due);
        if let Err(error) = self.log.flush(FLUSH_PATIENCE) {
            tracing::error!(%error, "cannot flush the audit log");
        }
    }
}
