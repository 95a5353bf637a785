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
    pub(super) channels: Weak<JobChannels>,
    state: Mutex<ChannelState>,
    sender: broadcast::Sender<JobUpdate>,
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
    pub(super) fn new(id: JobId, channels: Weak<JobChannels>) -> Self {
        Self {
            id,
            channels,
            state: Mutex::default(),
            sender: broadcast::channel(MAX_LAG_UPDATES).0,
        }
    }

    /// Starts after sequence number `seq`, the end of the session.
    pub(crate) fn begin(&self, seq: u64) {
        let mut state = self.state();
        state.seq = seq;
        state.tail.clear();
    }

    pub(crate) fn join(self: &Arc<Self>) -> Subscription {
        // Hold the lock, so that nothing is published between the tail and the subscription.
        let mut state = self.state();
        Subscription {
            seq: state.seq,
            tail: state.tail.updates(),
            updates: self.sender.subscribe(),
            _channel: self.clone(),
        }
    }

    /// Publishes an event. A persistent event must already be in the store.
    pub(crate) fn publish(&self, event: &Event) {
        let mut state = self.state();
        match event.seq {
            Some(seq) => {
                state.seq = seq;
                state.tail.clear();
            }
            None => state.tail.push(event),
        }
        // Skip the JSON if there are no receivers.
        if self.sender.receiver_count() > 0
            && let Some(update) = JobUpdate::of_event(event)
        {
            let _ = self.sender.send(update);
        }
    }

    /// Publishes a job's record, unless a later one was published already.
    pub(crate) fn publish_job(&self, job: &Job) {
        let mut state = self.state();
        if state.revision < Some(job.revision) {
            state.revision = Some(job.revision);
            let _ = self.sender.send(JobUpdate::of_job(job.clone()));
        }
    }

    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for JobChannel {
    fn drop(&mut self) {
        if let Some(channels) = self.channels.upgrade() {
            channels.remove_dead(self.id);
        }
    }
}
