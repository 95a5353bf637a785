//! Carries what agents tell to those who follow, while it happens. Remembers only what is not in
//! the store yet: the pieces since the last lasting event.
//!
//! Nothing is kept for a job that nobody works on and nobody follows. Entry type: [`Hub`].

mod room;
mod tail;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use protocol::job::{Job, JobId};

pub(crate) use room::{Room, told};

/// All rooms that anybody is in.
#[derive(Debug, Default)]
pub(crate) struct Hub {
    rooms: Arc<Rooms>,
}

#[derive(Debug, Default)]
pub(crate) struct Rooms(Mutex<HashMap<JobId, Weak<Room>>>);

impl Hub {
    /// The job's room, made if nobody is in it yet.
    pub(crate) fn room(&self, id: JobId) -> Arc<Room> {
        let mut rooms = self.rooms.lock();
        if let Some(room) = rooms.get(&id).and_then(Weak::upgrade) {
            return room;
        }
        let room = Arc::new(Room::new(id, Arc::downgrade(&self.rooms)));
        rooms.insert(id, Arc::downgrade(&room));
        room
    }

    /// Tells of a job's record, if anybody is there to hear.
    pub(crate) fn tell_job(&self, job: &Job) {
        // Not while the rooms are locked: dropping the last hold on a room locks them.
        let room = self.rooms.lock().get(&job.id).and_then(Weak::upgrade);
        if let Some(room) = room {
            room.tell_job(job);
        }
    }
}

impl Rooms {
    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, Weak<Room>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a room that nobody is in; a new one of the same job stays.
    fn remove_dead(&self, id: JobId) {
        let mut rooms = self.lock();
        if rooms.get(&id).is_some_and(|room| room.strong_count() == 0) {
            rooms.remove(&id);
        }
    }
}
