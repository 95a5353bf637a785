//! Persistent state: sessions as append-only logs of events, long tool outputs, checkpoints of workspaces,
//! and a server's jobs. All in one folder, in SQLite.
//!
//! Depends on the types of `protocol`, not on agents, models or sandboxes. Entry points: [`SessionStore::open`],
//! [`SessionStore::begin`] and [`SessionStore::claim`], which return a [`Journal`] to write to, and [`JobStore::open`].

mod backup;
mod checkpoints;
mod database;
mod deletion;
mod error;
mod fold;
mod fork;
pub mod jobs;
mod journal;
mod lock;
mod migration;
mod outputs;
mod rows;
mod search;
mod sessions;
mod sizes;
mod store;

pub use backup::backup;
pub use checkpoints::{ContentHash, FileRecord, FileStamp, RecordedKind};
pub use error::StoreError;
pub use jobs::JobStore;
pub use journal::Journal;
pub use search::SearchHit;
pub use sessions::{SessionQuery, SessionSummary};
pub use sizes::SessionSize;
pub use store::SessionStore;
