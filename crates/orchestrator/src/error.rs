//! Errors of starting and running a server.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    #[error("cannot use the data folder `{path}`")]
    Folder { path: PathBuf, source: io::Error },
    #[error("another server uses the data folder `{path}`")]
    InUse { path: PathBuf },
    #[error("cannot listen on `{address}`")]
    Listen { address: String, source: io::Error },
    #[error("`{address}` can be reached from elsewhere, and there is no key")]
    NoKeys { address: String },
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error("cannot open the audit log")]
    Audit(#[source] audit::AuditError),
    #[error("cannot go on serving")]
    Broke(#[source] io::Error),
}
