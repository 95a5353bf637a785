//! Errors of reading and writing the log. Findings of a verification are not errors.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Why the log could not be written or read. Cheap to clone: a failure is reported to all callers
/// whose lines were written together.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    #[error("cannot create the folder of the audit log `{}`", path.display())]
    CreateFolder {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// The log could not be opened. A symlink is refused too.
    #[error("cannot open the audit log `{}`", path.display())]
    Open {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    #[error("cannot use `{}` as an audit log: it is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    #[error("cannot lock the audit log `{}`", path.display())]
    Lock {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// Another process holds the lock for too long, for example because it is stopped.
    #[error(
        "cannot lock the audit log `{}` within {} s: another process holds it",
        path.display(),
        waited.as_secs()
    )]
    LockTimeout { path: PathBuf, waited: Duration },
    /// The log or its head file could not be read.
    #[error("cannot read the audit log `{}`", path.display())]
    Read {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// The log or its head file could not be written.
    #[error("cannot append to the audit log `{}`", path.display())]
    Append {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    #[error("cannot rotate the audit log `{}`", path.display())]
    Rotate {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// The log was moved or deleted while it was open, so the line would be lost.
    #[error("cannot append to the audit log `{}`: it was replaced or removed while open", path.display())]
    Replaced { path: PathBuf },
    #[error("cannot encode a record for the audit log")]
    Encode { source: Arc<serde_json::Error> },
    /// The writer thread could not be started, or has ended.
    #[error("cannot append to the audit log `{}`: its writer is not running", path.display())]
    NoWriter { path: PathBuf },
    #[error("cannot append to the audit log `{}`: too many lines wait to be written", path.display())]
    QueueFull { path: PathBuf },
}
