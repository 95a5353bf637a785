//! Errors of the store.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use protocol::SessionId;
use protocol::job::JobId;
use thiserror::Error;

const SQLITE_BUSY: u32 = 5;
const SQLITE_LOCKED: u32 = 6;
const SQLITE_NOMEM: u32 = 7;
const SQLITE_IOERR: u32 = 10;
const SQLITE_FULL: u32 = 13;
const SQLITE_CANTOPEN: u32 = 14;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("cannot open the store `{path}`")]
    Open {
        path: PathBuf,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    #[error("the store `{path}` was written by a newer hotcell")]
    Newer { path: PathBuf },
    #[error("cannot {what} in the store")]
    Database {
        what: &'static str,
        /// Shared by all writes of one commit.
        source: Arc<sqlx::Error>,
    },
    #[error("there is no session `{0}`")]
    Unknown(String),
    #[error("there is already a session `{0}`")]
    Exists(SessionId),
    #[error("`{name}` begins the names of {count} sessions")]
    Ambiguous { name: String, count: u64 },
    #[error("session `{0}` is in use by another hotcell")]
    InUse(SessionId),
    #[error("cannot lock session `{session}`")]
    Lock {
        session: SessionId,
        source: io::Error,
    },
    #[error("cannot read event {seq} of session `{session}`")]
    Damaged {
        session: SessionId,
        seq: u64,
        source: serde_json::Error,
    },
    /// The event is left unchanged. This release cannot resume the session.
    #[error("event {seq} of session `{session}` was written by a newer hotcell")]
    NewerEvent {
        session: SessionId,
        seq: u64,
        source: serde_json::Error,
    },
    #[error("cannot write an event of session `{session}` as JSON")]
    Encode {
        session: SessionId,
        source: serde_json::Error,
    },
    #[error("the first event of session `{0}` must be its start")]
    NotStarted(SessionId),
    #[error("cannot write a transient event to session `{0}`")]
    Fleeting(SessionId),
    #[error("cannot save checkpoint {number} of session `{session}`: {count} contents are missing")]
    MissingContents {
        session: SessionId,
        number: u32,
        count: u64,
    },
    #[error("cannot read checkpoint {number} of session `{session}`")]
    DamagedCheckpoint {
        session: String,
        number: u32,
        source: postcard::Error,
    },
    #[error("the stored content `{hash}` does not match its hash")]
    DamagedContent { hash: String },
    #[error("there is already a job `{0}`")]
    JobExists(JobId),
    #[error("cannot read the record of job `{job}`")]
    DamagedJob {
        job: JobId,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The record is left unchanged.
    #[error("the record of job `{job}` was written by a newer hotcell")]
    NewerJob {
        job: JobId,
        source: serde_json::Error,
    },
    #[error("cannot write the record of job `{job}` as JSON")]
    EncodeJob {
        job: JobId,
        source: serde_json::Error,
    },
    #[error("the record of job `{0}` has a wrong number of messages")]
    MessageCount(JobId),
}

impl StoreError {
    /// Whether the disk is full. The store works again once there is space.
    pub fn is_full(&self) -> bool {
        self.code() == Some(SQLITE_FULL)
    }

    /// Whether the disk is or may be full: SQLite does not always report a full disk as such.
    pub fn may_be_full(&self) -> bool {
        self.is_full() || self.is_out_of_resources()
    }

    /// Whether another process locked the store for too long.
    pub fn is_busy(&self) -> bool {
        matches!(self.code(), Some(SQLITE_BUSY | SQLITE_LOCKED))
    }

    /// Whether a file could not be opened, read or written, or memory ran out. The cause may be temporary.
    pub fn is_out_of_resources(&self) -> bool {
        matches!(
            self.code(),
            Some(SQLITE_NOMEM | SQLITE_IOERR | SQLITE_CANTOPEN)
        )
    }

    /// SQLite's primary result code.
    fn code(&self) -> Option<u32> {
        let source: &sqlx::Error = match self {
            Self::Database { source, .. } => source,
            Self::Open { source, .. } => source.downcast_ref()?,
            _ => return None,
        };
        let code = source.as_database_error()?.code()?;
        Some(code.parse::<u32>().ok()? & 0xff)
    }

    /// For `map_err`: the database failed during the operation `what`.
    pub(crate) fn database(what: &'static str) -> impl FnOnce(sqlx::Error) -> Self {
        move |source| Self::Database {
            what,
            source: Arc::new(source),
        }
    }
}
