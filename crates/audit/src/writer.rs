//! The thread that writes a log, so that other threads do not wait for a lock or a disk.
//!
//! Lines wait in a bounded queue. All queued lines are written together, under one lock and in one
//! call, and then the waiting callers are notified. Ends when the last sender is dropped and everything
//! is written. Entry: [`spawn_writer`].

use std::path::PathBuf;
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::chain::{AuditEntry, ChainWriter};
use crate::error::AuditError;

/// Most queued lines.
const QUEUE_CAPACITY: usize = 1024;

/// Most lines that are written together, and their approximate bytes. The last line may exceed the
/// latter.
const MAX_GROUP_LINES: usize = 64;
const MAX_GROUP_BYTES: usize = 256 << 10;

/// The result of writing a line.
pub(crate) type WriteResult = Result<(), AuditError>;

/// A queued line.
#[derive(Debug)]
pub(crate) struct QueuedLine {
    /// `None` only waits for all previous lines.
    pub(crate) entry: Option<AuditEntry>,
    /// Notified after the write; `None` if the caller does not wait.
    pub(crate) done: Option<oneshot::Sender<WriteResult>>,
}

pub(crate) fn spawn_writer(
    chain: ChainWriter,
    path: PathBuf,
) -> Result<mpsc::Sender<QueuedLine>, AuditError> {
    let (sender, receiver) = mpsc::channel(QUEUE_CAPACITY);
    let spawned = thread::Builder::new()
        .name("audit".to_owned())
        .spawn(move || run(chain, receiver));
    match spawned {
        Ok(_) => Ok(sender),
        Err(_) => Err(AuditError::NoWriter { path }),
    }
}

fn run(mut chain: ChainWriter, mut receiver: mpsc::Receiver<QueuedLine>) {
    while let Some(first) = receiver.blocking_recv() {
        let mut entries = Vec::new();
        let mut waiting = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(QueuedLine { entry, done }) = next {
            waiting.extend(done);
            if let Some(entry) = entry {
                bytes += entry.size();
                entries.push(entry);
            }
            let is_full = entries.len() >= MAX_GROUP_LINES || bytes >= MAX_GROUP_BYTES;
            next = if is_full {
                None
            } else {
                receiver.try_recv().ok()
            };
        }
        let written = if entries.is_empty() {
            Ok(())
        } else {
            chain.append(&entries)
        };
        if let Err(error) = &written {
            tracing::error!(%error, lines = entries.len(), "cannot write to an audit log");
        }
        for done in waiting {
            // The caller may have stopped waiting.
            let _ = done.send(written.clone());
        }
    }
}
