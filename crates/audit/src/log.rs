//! The handle for appending. Any number of handles, threads and processes can share one file.
//!
//! An appended line has been passed to the kernel and survives the end of the process. After about a
//! second it also survives a power failure. Entry type: [`AuditLog`].

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::chain::{AuditEntry, ChainWriter};
use crate::error::AuditError;
use crate::record::AuditRecord;
use crate::rotation::RotationPolicy;
use crate::writer::{self, QueuedLine, WriteResult};

/// Interval for polling whether everything is written.
const FLUSH_POLL_INTERVAL: Duration = Duration::from_micros(200);

/// A handle for appending. Clones share the writer.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: Arc<Path>,
    writer: mpsc::Sender<QueuedLine>,
}

impl AuditLog {
    /// Opens the log. Creates it (mode 0600) and its folders (0700) if they are missing. May wait for
    /// the lock.
    pub fn open(path: impl Into<PathBuf>) -> Result<AuditLog, AuditError> {
        AuditLog::open_with(path, RotationPolicy::default())
    }

    /// Like [`Self::open`], with other limits than the default.
    pub fn open_with(
        path: impl Into<PathBuf>,
        rotation: RotationPolicy,
    ) -> Result<AuditLog, AuditError> {
        let path = path.into();
        if let Some(folder) = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty())
        {
            DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)
                .map_err(|source| AuditError::CreateFolder {
                    path: path.clone(),
                    source: Arc::new(source),
                })?;
        }
        let chain = ChainWriter::open(&path, rotation)?;
        let writer = writer::spawn_writer(chain, path.clone())?;
        Ok(AuditLog {
            path: path.into(),
            writer,
        })
    }

    /// Appends one line to the chain and waits until it is written.
    pub async fn append(&self, sandbox: &str, record: AuditRecord) -> Result<(), AuditError> {
        let (waiting, written) = waiting(Some((sandbox, record)));
        let sent = self.writer.send(waiting).await;
        sent.map_err(|_| self.no_writer())?;
        written.await.unwrap_or_else(|_| Err(self.no_writer()))
    }

    /// Like [`Self::append`], for threads outside of an async runtime.
    pub fn append_blocking(&self, sandbox: &str, record: AuditRecord) -> Result<(), AuditError> {
        self.wait_blocking(waiting(Some((sandbox, record))))
    }

    /// Queues one line without waiting until it is written. Keeps the order of lines. A failure to write
    /// is only reported in the program's own log.
    pub fn append_later(&self, sandbox: &str, record: AuditRecord) -> Result<(), AuditError> {
        let waiting = QueuedLine {
            entry: Some(entry(sandbox, record)),
            done: None,
        };
        self.writer.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => self.queue_full(),
            TrySendError::Closed(_) => self.no_writer(),
        })
    }

    /// Waits until all queued lines are written, but no longer than `patience`. Blocks the thread even in
    /// an async runtime: for the end of a program.
    pub fn flush(&self, patience: Duration) -> Result<(), AuditError> {
        let deadline = Instant::now() + patience;
        let (waiting, mut written) = waiting(None);
        let mut unsent = Some(waiting);
        while Instant::now() < deadline {
            if let Some(waiting) = unsent.take() {
                match self.writer.try_send(waiting) {
                    Ok(()) => {}
                    Err(TrySendError::Full(waiting)) => unsent = Some(waiting),
                    Err(TrySendError::Closed(_)) => return Err(self.no_writer()),
                }
            } else {
                match written.try_recv() {
                    Ok(written) => return written,
                    Err(TryRecvError::Empty) => {}
                    Err(TryRecvError::Closed) => return Err(self.no_writer()),
                }
            }
            thread::sleep(FLUSH_POLL_INTERVAL);
        }
        Err(self.queue_full())
    }

    /// The path of the log.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn wait_blocking(
        &self,
        (waiting, written): (QueuedLine, oneshot::Receiver<WriteResult>),
    ) -> Result<(), AuditError> {
        let sent = self.writer.blocking_send(waiting);
        sent.map_err(|_| self.no_writer())?;
        let written = written.blocking_recv();
        written.unwrap_or_else(|_| Err(self.no_writer()))
    }

    fn queue_full(&self) -> AuditError {
        AuditError::QueueFull {
            path: self.path.to_path_buf(),
        }
    }

    fn no_writer(&self) -> AuditError {
        AuditError::NoWriter {
            path: self.path.to_path_buf(),
        }
    }
}

fn waiting(line: Option<(&str, AuditRecord)>) -> (QueuedLine, oneshot::Receiver<WriteResult>) {
    let (done, written) = oneshot::channel();
    let waiting = QueuedLine {
        entry: line.map(|(sandbox, record)| entry(sandbox, record)),
        done: Some(done),
    };
    (waiting, written)
}

fn entry(sandbox: &str, record: AuditRecord) -> AuditEntry {
    AuditEntry {
        sandbox: sandbox.to_owned(),
        record,
    }
}
