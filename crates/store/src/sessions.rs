//! Sessions as a list: found by age, by name, by words in them.

use jiff::Timestamp;
use protocol::{Event, SessionId, Usage};

use crate::error::StoreError;
use crate::store::Store;

/// A session in one line.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub session: SessionId,
    pub begun: Timestamp,
    /// Time of the last event.
    pub changed: Timestamp,
    /// First line of the first prompt.
    pub title: String,
    pub workspace: String,
    pub model: String,
    pub turns: u32,
    pub usage: Usage,
    /// In US dollars; `None` when any part of it is unknown.
    pub cost: Option<f64>,
    /// How the last turn ended, as [`protocol::Outcome`] names it; `None` while one is under way.
    pub outcome: Option<String>,
    pub events: u64,
}

/// Which part of the list, newest first.
#[derive(Debug, Clone, Default)]
pub struct Page {
    pub workspace: Option<String>,
    /// Sessions that are older than this one.
    pub before: Option<SessionId>,
    /// 0 is all.
    pub limit: u64,
}

/// Where words were found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    pub summary: Summary,
    /// The words among their neighbours.
    pub excerpt: String,
}

impl Store {
    pub async fn sessions(&self, _page: &Page) -> Result<Vec<Summary>, StoreError> {
        unimplemented!()
    }

    pub async fn summary(&self, _session: &SessionId) -> Result<Summary, StoreError> {
        unimplemented!()
    }

    /// The session of that name, or the only one whose name begins so.
    pub async fn find(&self, _name: &str) -> Result<SessionId, StoreError> {
        unimplemented!()
    }

    /// All events of a session, in order.
    pub async fn events(&self, _session: &SessionId) -> Result<Vec<Event>, StoreError> {
        unimplemented!()
    }

    /// Sessions in which all of the words occur, in prompts, replies or titles.
    pub async fn search(&self, _words: &str, _limit: u64) -> Result<Vec<Found>, StoreError> {
        unimplemented!()
    }

    /// Removes a session with all that was kept for it.
    pub async fn delete(&self, _session: &SessionId) -> Result<(), StoreError> {
        unimplemented!()
    }
}
