//! The handle for appending. Any number of handles, threads and processes may share one file.
//!
//! A line that was appended has been handed to the kernel: it outlives the process, and within a
//! second or so of further lines also a loss of power. Entry type: [`AuditLog`].

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

use crate::chain::{Chain, Entry};
use crate::error::AuditError;
use crate::record::Record;
use crate::rotation::Rotation;
use crate::writer::{self, Waiting, Written};

/// Between two looks whether everything is written.
const FLUSH_PAUSE: Duration = Duration::from_micros(200);

/// A handle for appending. Clones share it, and its writer.
#[derive(Clone, Debug)]
pub struct AuditLog {
    path: Arc<Path>,
    writer: mpsc::Sender<Waiting>,
}

impl AuditLog {
    /// Opens the log, creating it (mode 0600) and its folders (0700) where they are missing. May
    /// wait for the lock.
    pub fn open(path: impl Into<PathBuf>) -> Result<AuditLog, AuditError> {
        AuditLog::open_with(path, Rotation::default())
    }

    /// Like [`Self::open`], with other limits than usual.
    pub fn open_with(path: impl Into<PathBuf>, rotation: Rotation) -> Result<AuditLog, AuditError> {
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
        let chain = Chain::open(&path, rotation)?;
        let writer = writer::start(chain, path.clone())?;
        Ok(AuditLog {
            path: path.into(),
            writer,
        })
    }

    /// Appends one line, as the next link of the chain, and waits until it is written.
    pub async fn append(&self, sandbox: &str, record: Record) -> Result<(), AuditError> {
        let (waiting, written) = waiting(Some((sandbox, record)));
        let sent = self.writer.send(waiting).await;
        sent.map_err(|_| self.no_writer())?;
        written.await.unwrap_or_else(|_| Err(self.no_writer()))
    }

    /// Like [`Self::append`], for threads that run no tasks.
    pub fn append_blocking(&self, sandbox: &str, record: Record) -> Result<(), AuditError> {
        self.wait_blocking(waiting(Some((sandbox, record))))
    }

    /// Appends one line some time soon, after those that were sent before. A failure is only told
    /// in the program's own log.
    pub fn append_later(&self, sandbox: &str, record: Record) -> Result<(), AuditError> {
        let waiting = Waiting {
            entry: Some(entry(sandbox, record)),
            done: None,
        };
        self.writer.try_send(waiting).map_err(|error| match error {
            TrySendError::Full(_) => self.queue_full(),
            TrySendError::Closed(_) => self.no_writer(),
        })
    }

    /// Waits until everything that was sent so far is written, but not for ever. Blocks the thread,
    /// whatever it runs: for the end of a program.
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
            thread::sleep(FLUSH_PAUSE);
        }
        Err(self.queue_full())
    }

    /// The file that is written to.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn wait_blocking(
        &self,
        (waiting, written): (Waiting, oneshot::Receiver<Written>),
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

fn waiting(line: Option<(&str, Record)>) -> (Waiting, oneshot::Receiver<Written>) {
    let (done, written) = oneshot::channel();
    let waiting = Waiting {
        entry: line.map(|(sandbox, record)| entry(sandbox, record)),
        done: Some(done),
    };
    (waiting, written)
}

fn entry(sandbox: &str, record: Record) -> Entry {
    Entry {
        sandbox: sandbox.to_owned(),
        record,
    }
}
