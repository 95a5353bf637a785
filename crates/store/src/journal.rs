//! The one way to write a session's events.

use jiff::Timestamp;
use protocol::{Event, EventKind, SessionId};

use crate::error::StoreError;
use crate::store::Store;

/// The right to write to a session. One process has it at a time; it ends with the value.
#[derive(Debug)]
pub struct Journal {}

impl Store {
    /// Begins a session; its first event must be [`EventKind::SessionStarted`].
    pub async fn begin(&self, _session: SessionId) -> Result<Journal, StoreError> {
        unimplemented!()
    }

    /// Takes over a session, with all of its events so far.
    pub async fn claim(&self, _session: &SessionId) -> Result<(Journal, Vec<Event>), StoreError> {
        unimplemented!()
    }

    /// Begins a session with a copy of another's events up to `seq`, its kept outputs and
    /// checkpoints. Those events keep their content and get the new session's name.
    pub async fn fork(
        &self,
        _from: &SessionId,
        _seq: u64,
        _session: SessionId,
        _now: Timestamp,
    ) -> Result<(Journal, Vec<Event>), StoreError> {
        unimplemented!()
    }
}

impl Journal {
    pub fn session(&self) -> &SessionId {
        unimplemented!()
    }

    /// Writes an event. When this returns it is on disk, and no crash loses it.
    pub async fn append(&mut self, _time: Timestamp, _kind: EventKind) -> Result<Event, StoreError> {
        unimplemented!()
    }
}
