//! What can go wrong with the log itself, apart from what a check of it finds.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why the log could not be written or read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AuditError {
    /// The folder of the log could not be made.
    #[error("cannot create the folder of the audit log `{}`", path.display())]
    CreateFolder { path: PathBuf, source: io::Error },
    /// The log could not be opened; a symlink in its place is refused too.
    #[error("cannot open the audit log `{}`", path.display())]
    Open { path: PathBuf, source: io::Error },
    /// There is something else in the place of the log.
    #[error("cannot use `{}` as an audit log: it is not a regular file", path.display())]
    NotAFile { path: PathBuf },
    /// The lock that keeps writers apart could not be taken.
    #[error("cannot lock the audit log `{}`", path.display())]
    Lock { path: PathBuf, source: io::Error },
    /// The log or its head file could not be read.
    #[error("cannot read the audit log `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    /// The log or its head file could not be written.
    #[error("cannot append to the audit log `{}`", path.display())]
    Append { path: PathBuf, source: io::Error },
    /// The log was moved or deleted under the handle, so a line would go nowhere.
    #[error("cannot append to the audit log `{}`: it was replaced or removed while open", path.display())]
    Replaced { path: PathBuf },
    /// The record has no JSON form.
    #[error("cannot encode a record for the audit log")]
    Encode { source: serde_json::Error },
}
