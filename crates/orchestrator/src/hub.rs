//! Distributes live agent events to followers. Holds only what is not in the store yet: the deltas
//! since the last persistent event.
//!
//! Holds nothing for a job without worker and followers. Entry type: [`Hub`].

mod channel;
mod tail;
mod update;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::job::{Job, JobId};

pub(crate) use channel::{JobChannel, Subscription};
pub(crate) use update::{JobUpdate, TurnBoundary};

/// The channels in use.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    channels: Arc<JobChannels>,
}

#[derive(Debug, Default)]
pub(crate) struct JobChannels(Mutex<HashMap<JobId, Weak<JobChannel>>>);

impl Hub {
    /// The job's channel, created if it is not in use.
    pub(crate) fn channel(&self, id: JobId) -> Arc<JobChannel> {
        let mut channels = self.channels.lock();
        if let Some(channel) = channels.get(&id).and_then(Weak::upgrade) {
            return channel;
        }
        let channel = Arc::new(JobChannel::new(id, Arc::downgrade(&self.channels)));
        channels.insert(id, Arc::downgrade(&channel));
        channel
    }

    /// Publishes a job's record, if the job's channel is in use.
    pub(crate) fn publish_job(&self, job: &Job) {
        // Release the lock first: dropping the last reference to a channel takes it.
        let channel = self.channels.lock().get(&job.id).and_then(Weak::upgrade);
        if let Some(channel) = channel {
            channel.publish_job(job);
        }
    }
}

impl JobChannels {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Weak<JobChannel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a dropped channel. A new one of the same job stays.
    fn remove_dead(&self, id: JobId) {
        let mut channels = self.lock();
        if channels
            .get(&id)
            .is_some_and(|channel| channel.strong_count() == 0)
        {
            channels.remove(&id);
        }
    }
}
