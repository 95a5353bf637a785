//! The channel between a job's worker and its followers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::job::{Job, JobId};
use protocol::{Event, EventKind};
use tokio::sync::broadcast;
use tracing::error;

use super::Rooms;
use super::tail::Tail;
use crate::app::Told;

/// Updates that a follower may lag behind; then it reads from the store.
const BEHIND: usize = 512;

/// Broadcasts updates of one job. Exists while it is referenced by a worker or a follower.
#[derive(Debug)]
pub(crate) struct Room {
    pub(super) id: JobId,
    pub(super) rooms: Weak<Rooms>,
    live: Mutex<Live>,
    told: broadcast::Sender<Told>,
}

#[derive(Debug, Default)]
struct Live {
    /// Sequence number of the last persistent event published here.
    seq: u64,
    tail: Tail,
    /// Revision of the job record that was published last.
    revision: Option<u64>,
}

/// The start of a subscription: everything after `seq` is in `tail` or comes through `updates`.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) seq: u64,
    pub(crate) tail: Vec<Told>,
    pub(crate) told: broadcast::Receiver<Told>,
}

impl Room {
    pub(super) fn new(id: JobId, rooms: Weak<Rooms>) -> Self {
        Self {
            id,
            rooms,
            live: Mutex::default(),
            told: broadcast::channel(BEHIND).0,
        }
    }

    /// Starts after sequence number `seq`, the end of the session.
    pub(crate) fn begin(&self, seq: u64) {
        let mut live = self.live();
        live.seq = seq;
        live.tail.clear();
    }

    pub(crate) fn join(&self) -> Joined {
        // Hold the lock, so that nothing is published between the tail and the subscription.
        let live = self.live();
        Joined {
            seq: live.seq,
            tail: live.tail.events().filter_map(told).collect(),
            told: self.told.subscribe(),
        }
    }

    /// Publishes an event. A persistent event must already be in the store.
    pub(crate) fn tell(&self, event: &Event) {
        let mut live = self.live();
        match event.seq {
            Some(seq) => {
                live.seq = seq;
                live.tail.clear();
            }
            None => live.tail.push(event),
        }
        // Skip the JSON if there are no receivers.
        if self.told.receiver_count() > 0
            && let Some(told) = told(event)
        {
            let _ = self.told.send(told);
        }
    }

    /// Publishes a job's record, unless a later one was published already.
    pub(crate) fn tell_job(&self, job: &Job) {
        let mut live = self.live();
        if live.revision < Some(job.revision) {
            live.revision = Some(job.revision);
            let _ = self.told.send(Told::Job(Arc::new(job.clone())));
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(rooms) = self.rooms.upgrade() {
            rooms.remove_dead(self.id);
        }
    }
}

/// Converts an event to the update that followers receive.
pub(crate) fn told(event: &Event) -> Option<Told> {
    let ends_turn = match &event.kind {
        EventKind::TurnEnded { turn, .. } => Some(*turn),
        _ => None,
    };
    match serde_json::to_string(event) {
        Ok(json) => Some(Told::Event {
            seq: event.seq,
            ends_turn,
            json: json.into(),
        }),
        Err(error) => {
            error!(%error, "event cannot be written as JSON");
            None
        }
    }
}
