//! Counts of each user's queued and running jobs: for fair scheduling, and for refusing jobs when a
//! queue is full.
//!
//! Memory depends on the number of users, not of jobs. Counts may be temporarily too high, when it
//! is unknown whether a write succeeded; the dispatcher then finds no job and corrects them. They
//! are never too low.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use store::jobs::OwnerLoad;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Limits on queued and running jobs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueueLimits {
    pub(crate) queue: u64,
    pub(crate) queue_per_user: u64,
    pub(crate) running_per_user: usize,
}

#[derive(Debug)]
pub(crate) struct LoadTracker {
    bounds: QueueLimits,
    state: Mutex<LoadState>,
    /// Notified when a job may have become claimable.
    changed: Notify,
}

#[derive(Debug, Default)]
struct LoadState {
    users: HashMap<String, UserLoad>,
    queued: u64,
    running: u64,
    /// Counts claims and new users: a logical clock for fairness.
    tick: u64,
    last_claim: Option<Instant>,
    /// Average time between two claims.
    pace: Option<Duration>,
}

#[derive(Debug, Default)]
struct UserLoad {
    /// Includes reservations.
    queued: u64,
    /// Part of `queued`: reservations of jobs that are not stored yet.
    reserved: u64,
    running: usize,
    /// Logical time of the last claim, or of the user's arrival.
    served: u64,
    /// How often `queued` grew: shows whether a lookup is outdated.
    version: u64,
    /// None of the queued jobs can be claimed yet.
    is_deferred: bool,
}

/// Why no further job can be queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueueFull {
    pub(crate) what: String,
    /// Seconds.
    pub(crate) retry_after: u64,
}

/// The user whose job is claimed next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextUser {
    pub(crate) owner: String,
    version: u64,
}

/// A reserved position in the queue for a job that is being stored. Released on drop unless it is
/// committed.
#[derive(Debug)]
pub(crate) struct Reservation {
    loads: Arc<LoadTracker>,
    owner: String,
    is_committed: bool,
}

impl LoadTracker {
    pub(crate) fn new(bounds: QueueLimits) -> Self {
        Self {
            bounds,
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// Adds the jobs that are queued when the server starts.
    pub(crate) fn restore(&self, loads: Vec<OwnerLoad>) {
        let mut state = self.state();
        for load in loads.iter().filter(|load| load.queued > 0) {
            state.user(&load.owner).queued += load.queued;
            state.queued += load.queued;
        }
    }

    /// Waits until a job may have become claimable.
    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Wakes the dispatcher after a change that is not counted here.
    pub(crate) fn wake(&self) {
        self.changed.notify_one();
    }

    pub(crate) fn queued(&self) -> u64 {
        self.state().queued
    }

    pub(crate) fn running(&self) -> u64 {
        self.state().running
    }

    /// Reserves a position in the queue, if it is not full.
    pub(crate) fn reserve(self: &Arc<Self>, owner: &str) -> Result<Reservation, QueueFull> {
        let mut state = self.state();
        let retry_after = state.retry_after();
        if state.queued >= self.bounds.queue {
            let what = format!("{} jobs", state.queued);
            return Err(QueueFull { what, retry_after });
        }
        let user = state.user(owner);
        if user.queued >= self.bounds.queue_per_user {
            let what = format!("{} jobs of yours", user.queued);
            state.remove_if_idle(owner);
            return Err(QueueFull { what, retry_after });
        }
        user.queued += 1;
        user.reserved += 1;
        state.queued += 1;
        Ok(Reservation {
            loads: self.clone(),
            owner: owner.to_owned(),
            is_committed: false,
        })
    }

    /// Counts a running job that was queued again.
    pub(crate) fn record_requeue(&self, owner: &str) {
        let mut state = self.state();
        let user = state.user(owner);
        user.queued += 1;
        user.version += 1;
        user.is_deferred = false;
        state.queued += 1;
        drop(state);
        self.changed.notify_one();
    }

    /// Marks the chosen user as having no claimable job until something changes.
    pub(crate) fn defer(&self, next: &NextUser) {
        let mut state = self.state();
        if let Some(user) = state.users.get_mut(&next.owner)
            && user.version == next.version
        {
            user.is_deferred = true;
        }
    }

    pub(crate) fn has_deferred(&self) -> bool {
        self.state().users.values().any(|user| user.is_deferred)
    }

    /// Clears all deferrals: jobs may be claimable now.
    pub(crate) fn wake_deferred(&self) {
        for user in self.state().users.values_mut() {
            user.is_deferred = false;
            // Invalidate lookups in progress, which may have been too early.
            user.version += 1;
        }
        self.changed.notify_one();
    }

    /// Removes a queued job that was not claimed.
    pub(crate) fn dequeue(&self, owner: &str) {
        let mut state = self.state();
        if state.pop_queued(owner) {
            state.remove_if_idle(owner);
        }
    }

    /// The user whose job is claimed next: the fewest running jobs first, then the longest time
    /// since the last claim.
    pub(crate) fn choose(&self) -> Option<NextUser> {
        let state = self.state();
        let ready = state.users.iter().filter(|(_, user)| {
            user.queued > user.reserved
                && user.running < self.bounds.running_per_user
                && !user.is_deferred
        });
        let (owner, user) = ready.min_by_key(|(_, user)| (user.running, user.served))?;
        Some(NextUser {
            owner: owner.clone(),
            version: user.version,
        })
    }

    /// Counts a claimed job of the chosen user.
    pub(crate) fn claimed(&self, owner: &str) {
        let mut state = self.state();
        state.pop_queued(owner);
        state.running += 1;
        state.tick += 1;
        let tick = state.tick;
        let user = state.user(owner);
        user.running += 1;
        user.served = tick;
        state.update_claim_interval();
    }

    /// Corrects the count of the chosen user, who had no queued job.
    pub(crate) fn reset_queued(&self, next: &NextUser) {
        let mut state = self.state();
        let Some(user) = state.users.get_mut(&next.owner) else {
            return;
        };
        // Otherwise a job was queued since the lookup.
        if user.version == next.version {
            let surplus = user.queued - user.reserved;
            user.queued = user.reserved;
            state.queued = state.queued.saturating_sub(surplus);
            state.remove_if_idle(&next.owner);
        }
    }

    /// Counts a worker that has exited.
    pub(crate) fn ended(&self, owner: &str) {
        let mut state = self.state();
        state.running = state.running.saturating_sub(1);
        let user = state.user(owner);
        user.running = user.running.saturating_sub(1);
        state.remove_if_idle(owner);
        drop(state);
        self.changed.notify_one();
    }

    fn state(&self) -> MutexGuard<'_, LoadState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadState {
    /// A new user is served after the present ones.
    fn user(&mut self, owner: &str) -> &mut UserLoad {
        if !self.users.contains_key(owner) {
            self.tick += 1;
            let user = UserLoad {
                served: self.tick,
                ..UserLoad::default()
            };
            self.users.insert(owner.to_owned(), user);
        }
        self.users
            .get_mut(owner)
            .expect("the user exists or was just inserted")
    }

    fn pop_queued(&mut self, owner: &str) -> bool {
        match self.users.get_mut(owner) {
            Some(user) if user.queued > user.reserved => {
                user.queued -= 1;
                self.queued = self.queued.saturating_sub(1);
                true
            }
            _ => false,
        }
    }

    /// Removes a user without jobs.
    fn remove_if_idle(&mut self, owner: &str) {
        let is_idle = |user: &UserLoad| user.queued == 0 && user.running == 0;
        if self.users.get(owner).is_some_and(is_idle) {
            self.users.remove(owner);
        }
    }

    fn update_claim_interval(&mut self) {
        let now = Instant::now();
        if let Some(last) = self.last_claim.replace(now) {
            let gap = now - last;
            self.pace = Some(self.pace.map_or(gap, |pace| (pace * 7 + gap) / 8));
        }
    }

    /// Seconds until the queue is likely to have room.
    fn retry_after(&self) -> u64 {
        let pace = self.pace.unwrap_or(Duration::from_secs(5));
        (pace.as_secs() + 1).clamp(1, 60)
    }
}

impl Reservation {
    /// Turns the reservation into a queued job. Also called when it is unknown whether the job was
    /// stored.
    pub(crate) fn commit(mut self) {
        self.is_committed = true;
        let mut state = self.loads.state();
        let user = state.user(&self.owner);
        user.reserved = user.reserved.saturating_sub(1);
        user.version += 1;
        user.is_deferred = false;
        drop(state);
        self.loads.changed.notify_one();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_committed {
            return;
        }
        let mut state = self.loads.state();
        let user = state.user(&self.owner);
        user.reserved = user.reserved.saturating_sub(1);
        user.queued = user.queued.saturating_sub(1);
        state.queued = state.queued.saturating_sub(1);
        state.remove_if_idle(&self.owner);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const TEST_LIMITS: QueueLimits = QueueLimits {
        queue: 10,
        queue_per_user: 6,
        running_per_user: 2,
    };

    fn load(owner: &str, queued: u64) -> OwnerLoad {
        OwnerLoad {
            owner: owner.to_owned(),
            queued,
            running: 0,
        }
    }

    fn loads(queued: &[(&str, u64)]) -> Arc<LoadTracker> {
        let queued = queued.iter().map(|(owner, queued)| load(owner, *queued));
        let loads = LoadTracker::new(TEST_LIMITS);
        loads.restore(queued.collect());
        Arc::new(loads)
    }

    fn claim(loads: &LoadTracker) -> Option<String> {
        let next = loads.choose()?;
        loads.claimed(&next.owner);
        Some(next.owner)
    }

    #[test]
    fn users_take_turns_however_much_they_have() {
        let loads = loads(&[("ada", 100), ("bob", 2), ("eve", 1)]);
        // With one worker.
        let mut order = String::new();
        for _ in 0..6 {
            let owner = claim(&loads).unwrap();
            order.push_str(&owner[..1]);
            loads.ended(&owner);
        }
        assert_eq!(order, "abeaba");
        // With many workers: the user with the fewest running jobs comes first, and no user has
        // more than two.
        let loads = self::loads(&[("ada", 100), ("bob", 1)]);
        let order: Vec<_> = std::iter::from_fn(|| claim(&loads)).collect();
        assert_eq!(order, ["ada", "bob", "ada"]);
        loads.ended("ada");
        assert_eq!(claim(&loads).as_deref(), Some("ada"));
    }

    #[test]
    fn a_user_who_returns_with_single_jobs_has_no_advantage() {
        let loads = Arc::new(LoadTracker::new(QueueLimits {
            queue: 1000,
            ..TEST_LIMITS
        }));
        loads.restore(vec![load("ada", 100), load("bob", 1)]);
        let mut served = HashMap::<String, u32>::new();
        for _ in 0..100 {
            let owner = claim(&loads).unwrap();
            *served.entry(owner.clone()).or_default() += 1;
            loads.ended(&owner);
            if owner == "bob" {
                loads.reserve("bob").unwrap().commit();
            }
        }
        assert_eq!(served["ada"], 50);
    }

    #[test]
    fn a_queue_is_limited_per_user_and_in_total() {
        let loads = loads(&[("ada", 3)]);
        let mine: Vec<_> = (0..3).map(|_| loads.reserve("ada").unwrap()).collect();
        let full = loads.reserve("ada").unwrap_err();
        assert_eq!(full.what, "6 jobs of yours");
        let bobs: Vec<_> = (0..4).map(|_| loads.reserve("bob").unwrap()).collect();
        assert_eq!(loads.reserve("eve").unwrap_err().what, "10 jobs");
        assert!((1..=60).contains(&full.retry_after));
        // Released places can be reserved again.
        drop(bobs);
        assert_eq!(loads.queued(), 6);
        for one in mine {
            one.commit();
        }
        assert!(loads.reserve("ada").is_err());
        assert_eq!(claim(&loads).as_deref(), Some("ada"));
        assert!(loads.reserve("ada").is_ok());
    }

    #[test]
    fn a_reservation_is_not_chosen() {
        let loads = loads(&[]);
        let reservation = loads.reserve("ada").unwrap();
        assert_eq!(loads.choose(), None);
        reservation.commit();
        assert!(loads.choose().is_some());
    }

    #[test]
    fn a_count_that_is_too_high_is_corrected_unless_it_has_grown() {
        let loads = loads(&[("ada", 2)]);
        let next = loads.choose().unwrap();
        loads.reserve("ada").unwrap().commit();
        loads.reset_queued(&next);
        assert_eq!(loads.queued(), 3);
        let next = loads.choose().unwrap();
        let reservation = loads.reserve("ada").unwrap();
        loads.reset_queued(&next);
        assert_eq!((loads.queued(), loads.choose()), (1, None));
        reservation.commit();
        assert!(loads.choose().is_some());
    }

    #[test]
    fn a_user_without_work_costs_nothing() {
        let loads = loads(&[("ada", 1)]);
        claim(&loads).unwrap();
        loads.ended("ada");
        drop(loads.reserve("bob").unwrap());
        loads.dequeue("eve");
        assert!(loads.state().users.is_empty());
    }
}
