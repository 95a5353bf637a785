//! Why the store did not do as asked.

use std::io;
use std::path::PathBuf;

use protocol::SessionId;
use thiserror::Error;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("cannot open the session store `{path}`")]
    Open {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the session store `{path}` was written by a newer hotcell")]
    Newer { path: PathBuf },
    #[error("cannot {what} in the session store")]
    Database {
        what: &'static str,
        source: sqlx::Error,
    },
    #[error("there is no session `{0}`")]
    Unknown(String),
    #[error("`{name}` begins the names of {count} sessions")]
    Ambiguous { name: String, count: u64 },
    #[error("session `{0}` is in use by another hotcell")]
    InUse(SessionId),
    #[error("cannot lock session `{session}`")]
    Lock {
        session: SessionId,
        source: io::Error,
    },
    #[error("event {seq} of session `{session}` cannot be understood")]
    Damaged {
        session: SessionId,
        seq: u64,
        source: serde_json::Error,
    },
}
