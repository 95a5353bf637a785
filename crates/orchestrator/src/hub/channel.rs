//! The channel between a job's worker and its followers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::Event;
use protocol::job::{Job, JobId};
use tokio::sync::broadcast;

use super::JobChannels;
use super::tail::DeltaTail;
use super::update::JobUpdate;

/// Updates that a follower may lag behind; then it reads from the store.
const MAX_LAG_UPDATES: usize = 512;

/// Broadcasts updates of one job. Exists while it is referenced by a worker or a follower.
#[derive(Debug)]
pub(crate) struct JobChannel {
    pub(super) id: JobId,
    pub(super) rooms: Weak<JobChannels>,
    live: Mutex<ChannelState>,
    told: broadcast::Sender<JobUpdate>,
}

#[derive(Debug, Default)]
struct ChannelState {
    /// Sequence number of the last persistent event published here.
    seq: u64,
    tail: DeltaTail,
    /// Revision of the job record that was published last.
    revision: Option<u64>,
}

/// A follower's subscription. Everything after `seq` is in `tail` or comes through `updates`.
#[derive(Debug)]
pub(crate) struct Subscription {
    pub(crate) seq: u64,
    pub(crate) tail: Vec<JobUpdate>,
    pub(crate) updates: broadcast::Receiver<JobUpdate>,
    /// Keeps the channel in use.
    _channel: Arc<JobChannel>,
}

impl JobChannel {
    pub(super) fn new(id: JobId, rooms: Weak<JobChannels>) -> Self {
        Self {
            id,
            rooms,
            live: Mutex::default(),
            told: broadcast::channel(MAX_LAG_UPDATES).0,
        }
    }

    /// Starts after sequence number `seq`, the end of the session.
    pub(crate) fn begin(&self, seq: u64) {
        let mut live = self.live();
        live.seq = seq;
        live.tail.clear();
    }

    pub(crate) fn join(self: &Arc<Self>) -> Subscription {
        // Hold the lock, so that nothing is published between the tail and the subscription.
        let mut live = self.live();
        Subscription {
            seq: live.seq,
            tail: live.tail.updates(),
            updates: self.told.subscribe(),
            _channel: self.clone(),
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
            && let Some(told) = JobUpdate::of_event(event)
        {
            let _ = self.told.send(told);
        }
    }

    /// Publishes a job's record, unless a later one was published already.
    pub(crate) fn tell_job(&self, job: &Job) {
        let mut live = self.live();
        if live.revision < Some(job.revision) {
            live.revision = Some(job.revision);
            let _ = self.told.send(JobUpdate::of_job(job.clone()));
        }
    }

    fn live(&self) -> MutexGuard<'_, ChannelState> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JobChannel {
    fn drop(&mut self) {
        if let Some(rooms) = self.rooms.upgrade() {
            rooms.remove_dead(self.id);
        }
    }
}
