//! Records the connections that a sandbox makes or tries to make. Repeats are folded and the number
//! of lines per sandbox is limited, so a program inside cannot fill the host's disk.
//! Entry type: [`ConnectionRecorder`].

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use audit::{AuditRecord, AuditVerdict, FoldLimits, FoldedLine, RepeatFold};
use tracing::info;

use crate::recorder::AuditRecorder;

/// A line is at most about 3 KiB, so refusals take at most 1.5 MiB of the log.
const DENIED_FOLD_LIMITS: FoldLimits = FoldLimits {
    window: Duration::from_secs(10),
    keys: 64,
    lines: 500,
};
const ALLOWED_FOLD_LIMITS: FoldLimits = FoldLimits {
    lines: 5_000,
    ..DENIED_FOLD_LIMITS
};

/// The connection log of one sandbox.
#[derive(Debug)]
pub(crate) struct ConnectionRecorder {
    recorder: AuditRecorder,
    folds: Mutex<ConnectionFolds>,
}

#[derive(Debug)]
struct ConnectionFolds {
    allowed: RepeatFold<ConnectionAttempt>,
    denied: RepeatFold<ConnectionAttempt>,
}

/// The content of one line.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ConnectionAttempt {
    host: String,
    port: u16,
    address: Option<SocketAddr>,
    is_allowed: bool,
    because: String,
}

impl ConnectionRecorder {
    pub(crate) fn new(recorder: AuditRecorder) -> Self {
        Self {
            recorder,
            folds: Mutex::new(ConnectionFolds {
                allowed: RepeatFold::new(ALLOWED_FOLD_LIMITS),
                denied: RepeatFold::new(DENIED_FOLD_LIMITS),
            }),
        }
    }

    pub(crate) fn add(&self, connection: &egress::ConnectionRecord, now: Instant) {
        let (is_allowed, because) = match &connection.verdict {
            egress::ConnectionVerdict::Allowed { rule } => (true, rule.clone()),
            egress::ConnectionVerdict::Denied { reason } => (false, reason.to_string()),
        };
        let attempt = ConnectionAttempt {
            host: connection.host.clone(),
            port: connection.port,
            address: connection.address,
            is_allowed,
            because,
        };
        let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
        let fold = if is_allowed {
            &mut folds.allowed
        } else {
            &mut folds.denied
        };
        let was_capped = fold.is_capped();
        let due = fold.add(attempt, now);
        let is_newly_capped = fold.is_capped() && !was_capped;
        for line in due {
            self.write(line, is_allowed);
        }
        if is_newly_capped {
            self.write(
                FoldedLine {
                    what: None,
                    count: 0,
                },
                is_allowed,
            );
        }
    }

    /// Records the remaining counts when the sandbox ends.
    pub(crate) fn finish(&self) {
        let mut folds = self.folds.lock().unwrap_or_else(PoisonError::into_inner);
        for line in folds.allowed.finish() {
            self.write(line, true);
        }
        for line in folds.denied.finish() {
            self.write(line, false);
        }
    }

    fn write(&self, FoldedLine { what, count }: FoldedLine<ConnectionAttempt>, is_allowed: bool) {
        let verdict = if is_allowed {
            AuditVerdict::Allowed
        } else {
            AuditVerdict::Denied
        };
        let Some(attempt) = what else {
            info!(?verdict, count, "connections not recorded one by one");
            let what = if is_allowed {
                "allowed connections"
            } else {
                "denied connections"
            };
            return self.recorder.record_detached(AuditRecord::Capped {
                what: what.to_owned(),
                count,
            });
        };
        let ConnectionAttempt {
            host,
            port,
            address,
            because,
            ..
        } = attempt;
        info!(%host, port, ?verdict, %because, count, "connection");
        self.recorder.record_detached(AuditRecord::Connection {
            host,
            port,
            verdict,
            because,
            address: address.map(|address| address.to_string()),
            count,
        });
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use audit::AuditLog;
    use egress::{ConnectTarget, ConnectionRecord, DenialReason};

    use super::*;

    fn denied(host: &str) -> ConnectionRecord {
        let target = ConnectTarget::parse(&format!("{host}:443"), None).unwrap();
        ConnectionRecord {
            host: host.to_owned(),
            port: 443,
            address: None,
            verdict: egress::ConnectionVerdict::Denied {
                reason: DenialReason::NoRule { target },
            },
        }
    }

    /// The events of a flood of connections, and the size of the log.
    fn flood(count: usize, host: impl Fn(usize) -> String) -> (Vec<serde_json::Value>, u64) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = Arc::new(AuditLog::open(&path).unwrap());
        let connections = ConnectionRecorder::new(AuditRecorder::new("s", Some(log.clone())));
        let begin = Instant::now();
        for number in 0..count {
            // 1000 connections a second.
            let now = begin + Duration::from_millis(number as u64);
            connections.add(&denied(&host(number)), now);
            // Lets the writer keep up, as it would at this rate.
            if number % 500 == 0 {
                log.flush(Duration::from_secs(60)).unwrap();
            }
        }
        connections.finish();
        log.flush(Duration::from_secs(60)).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let events = text.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["event"].clone()
        });
        (events.collect(), text.len() as u64)
    }

    #[test]
    fn the_same_refusal_is_one_line_in_ten_seconds() {
        let (events, _) = flood(30_000, |_| "evil.test".into());
        let counts: Vec<u64> = events
            .iter()
            .map(|event| event["count"].as_u64().unwrap_or(1))
            .collect();
        assert_eq!(counts, [1, 9_999, 10_000, 10_000]);
    }

    #[test]
    fn a_flood_of_refusals_is_bounded() {
        let (events, bytes) = flood(120_000, |number| {
            format!("{number:0200x}.test").split_off(140)
        });
        let capped: Vec<_> = events
            .iter()
            .filter(|event| event["kind"] == "capped")
            .collect();
        assert!(events.len() < 600, "{}", events.len());
        assert!(bytes < 2 << 20, "{bytes}");
        assert!(capped.iter().any(|event| event["count"] == 0), "{capped:?}");
        let total: u64 = events
            .iter()
            .map(|event| event["count"].as_u64().unwrap_or(1))
            .sum();
        assert_eq!(total, 120_000);
    }
}
