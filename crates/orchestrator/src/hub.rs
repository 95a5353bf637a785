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

/// The rooms in use.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    rooms: Arc<JobChannels>,
}

#[derive(Debug, Default)]
pub(crate) struct JobChannels(Mutex<HashMap<JobId, Weak<JobChannel>>>);

impl Hub {
    /// The job's room, created if it is not in use.
    pub(crate) fn room(&self, id: JobId) -> Arc<JobChannel> {
        let mut rooms = self.rooms.lock();
        if let Some(room) = rooms.get(&id).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(JobChannel::new(id, Arc::downgrade(&self.rooms)));
        rooms.insert(id, Arc::downgrade(&room));
        room
    }

    /// Publishes a job's record, if the job's room is in use.
    pub(crate) fn tell_job(&self, job: &Job) {
        // Release the lock first: dropping the last reference to a room takes it.
        let room = self.rooms.lock().get(&job.id).and_then(Weak::upgrade);
        if let Some(room) = room {
            room.tell_job(job);
        }
    }
}

impl JobChannels {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Weak<JobChannel>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a dropped room. A new one of the same job stays.
    fn remove_dead(&self, id: JobId) {
        let mut rooms = self.lock();
        if rooms.get(&id).is_some_and(|room| room.strong_count() == 0) {
            rooms.remove(&id);
        }
    }
}
