//! One job's followers and what they hear.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::job::{Job, JobId};
use protocol::{Event, EventKind};
use tokio::sync::broadcast;
use tracing::error;

use super::Rooms;
use super::tail::Tail;
use crate::app::Told;

/// How far a follower may be behind; then it reads from the store.
const BEHIND: usize = 512;

/// Where a job's worker and its followers meet. There for as long as anybody is in it.
#[derive(Debug)]
pub(crate) struct Room {
    pub(super) id: JobId,
    pub(super) rooms: Weak<Rooms>,
    live: Mutex<Live>,
    told: broadcast::Sender<Told>,
}

#[derive(Debug, Default)]
struct Live {
    /// The last lasting event that was told here.
    seq: u64,
    tail: Tail,
    /// Of the job that was told last.
    revision: Option<u64>,
}

/// What a follower begins with: everything after `seq` is in `tail` or comes through `told`.
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

    /// A worker begins where the session ends with `seq`.
    pub(crate) fn begin(&self, seq: u64) {
        let mut live = self.live();
        live.seq = seq;
        live.tail.clear();
    }

    pub(crate) fn join(&self) -> Joined {
        // Under the lock, so that nothing is told between the tail and what follows it.
        let live = self.live();
        Joined {
            seq: live.seq,
            tail: live.tail.events().filter_map(told).collect(),
            told: self.told.subscribe(),
        }
    }

    /// Tells of an event. One that lasts is in the store already.
    pub(crate) fn tell(&self, event: &Event) {
        let mut live = self.live();
        match event.seq {
            Some(seq) => {
                live.seq = seq;
                live.tail.clear();
            }
            None => live.tail.push(event),
        }
        // JSON is not made for nobody.
        if self.told.receiver_count() > 0
            && let Some(told) = told(event)
        {
            let _ = self.told.send(told);
        }
    }

    /// Tells of a job's record, unless a later one was told already.
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

/// An event as followers hear it.
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
