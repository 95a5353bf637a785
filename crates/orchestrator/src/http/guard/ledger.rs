//! Writes down who asked for what change, in the server's own audit log.
//!
//! A thread writes, so that no request waits for a disk. A request gets its line reserved before it
//! changes anything: when the log cannot be written, changes are refused rather than forgotten.
//! Dropped, it waits until everything is written. Never has bodies or tokens.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use audit::{AuditLog, Record};
use tokio::sync::mpsc::{self, OwnedPermit};
use tokio::time::timeout;

use crate::http::problem::{Kind, Problem};

/// Lines that may wait to be written.
const ROOM: usize = 4_096;

/// How long a request waits for its line.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two tries to write a line.
const PAUSE: Duration = Duration::from_secs(1);

/// In the place of a sandbox's name.
const SERVER: &str = "server";

#[derive(Debug)]
pub(crate) struct Ledger {
    lines: Option<mpsc::Sender<Record>>,
    writer: Option<JoinHandle<()>>,
}

/// A line that is reserved.
#[derive(Debug)]
pub(crate) struct Line(OwnedPermit<Record>);

impl Line {
    pub(crate) fn write(self, record: Record) {
        self.0.send(record);
    }
}

impl Ledger {
    pub(crate) fn new(log: Arc<AuditLog>) -> Self {
        let (lines, waiting) = mpsc::channel(ROOM);
        let writer = thread::Builder::new()
            .name("audit".to_owned())
            .spawn(move || write_all(&log, waiting))
            .expect("a server that starts has a thread left");
        Self {
            lines: Some(lines),
            writer: Some(writer),
        }
    }

    pub(crate) async fn reserve(&self) -> Result<Line, Problem> {
        let lines = self.lines.clone().expect("lines are there until the drop");
        match timeout(PATIENCE, lines.reserve_owned()).await {
            Ok(Ok(line)) => Ok(Line(line)),
            _ => Err(
                Problem::new(Kind::Unavailable, "cannot write the audit log")
                    .hint("the server's log says why")
                    .retry_after(5),
            ),
        }
    }
}

impl Drop for Ledger {
    fn drop(&mut self) {
        self.lines = None;
        if let Some(writer) = self.writer.take()
            && writer.join().is_err()
        {
            tracing::error!("audit log was not written to its end");
        }
    }
}

fn write_all(log: &AuditLog, mut waiting: mpsc::Receiver<Record>) {
    while let Some(record) = waiting.blocking_recv() {
        let mut is_told = false;
        while let Err(error) = log.append(SERVER, &record) {
            if waiting.is_closed() {
                tracing::error!(%error, ?record, "audit entry is lost");
                break;
            }
            if !is_told {
                tracing::error!(%error, "cannot write the audit log");
                is_told = true;
            }
            thread::sleep(PAUSE);
        }
    }
}
