//! What can go wrong with the log itself, apart from what a check of it finds.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;

/// Why the log could not be written or read. Cheap to clone: one failure is told to everybody whose
/// lines were written together.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The folder of the log could not be made.
    #[error("cannot create the folder of the audit log `{}`", path.display())]
    CreateFolder {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// The log could not be opened; a symlink in its place is refused too.
    #[error("cannot open the audit log `{}`", path.display())]
    Open {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// There is something else in the place of the log.
    #[error("cannot use `{}` as an audit log: it is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// The lock that keeps writers apart could not be taken.
    #[error("cannot lock the audit log `{}`", path.display())]
    Lock {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// Another process holds the lock and does not give it back, as when it is stopped.
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
    /// A full log could not be put aside for a new one.
    #[error("cannot rotate the audit log `{}`", path.display())]
    Rotate {
        path: PathBuf,
        source: Arc<io::Error>,
    },
    /// The log was moved or deleted under the handle, so a line would go nowhere.
    #[error("cannot append to the audit log `{}`: it was replaced or removed while open", path.display())]
    Replaced { path: PathBuf },
    /// The record has no JSON form.
    #[error("cannot encode a record for the audit log")]
    Encode { source: Arc<serde_json::Error> },
    /// The thread that writes could not be started, or has ended.
    #[error("cannot append to the audit log `{}`: its writer is not running", path.display())]
    NoWriter { path: PathBuf },
    /// More lines wait to be written than there is room for.
    #[error("cannot append to the audit log `{}`: too many lines wait to be written", path.display())]
    QueueFull { path: PathBuf },
}
