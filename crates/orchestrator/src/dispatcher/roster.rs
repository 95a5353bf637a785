//! Which jobs have a worker now, and how to reach it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::Spending;
use protocol::job::{Job, JobId, State};
use store::jobs::Beat;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::watch::{AwakeClock, Stopwatch};

/// A job that a worker has, as others see it.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) epoch: u32,
    pub(crate) stopwatch: Stopwatch,
    /// Somebody wants the job to end. Set by [`Claimed::cancel`].
    pub(crate) cancelled: CancellationToken,
    /// The worker has decided how the job ends and is writing it down.
    has_decided: Mutex<bool>,
    /// The worker is to leave the job to a later one, now.
    pub(crate) parked: CancellationToken,
    /// Somebody said something: there may be a new message.
    pub(crate) spoken: Notify,
    /// How often somebody wanted the turn to stop.
    pub(crate) interrupts: watch::Sender<u64>,
    /// What the job has cost so far; the record learns it at the end.
    spending: Mutex<Spending>,
    /// Since when the job waits for a message, if it does.
    waiting: Mutex<Option<Instant>>,
    /// Others want to run: the job is not to wait for long.
    pub(crate) pressed: CancellationToken,
    /// The worker has left.
    pub(crate) left: CancellationToken,
}

impl Claimed {
    /// Of a queued job that is about to be claimed.
    pub(crate) fn new(job: &Job, clock: Arc<AwakeClock>) -> Self {
        Self {
            epoch: job.epoch + 1,
            stopwatch: Stopwatch::start(clock, Duration::from_millis(job.ran_millis)),
            cancelled: CancellationToken::new(),
            has_decided: Mutex::new(false),
            parked: CancellationToken::new(),
            spoken: Notify::new(),
            interrupts: watch::Sender::new(0),
            spending: Mutex::new(job.spending.clone()),
            waiting: Mutex::new(None),
            pressed: CancellationToken::new(),
            left: CancellationToken::new(),
        }
    }

    /// Has the job end as cancelled. False if its worker has decided on another end already.
    pub(crate) fn cancel(&self) -> bool {
        let has_decided = lock(&self.has_decided);
        if !*has_decided {
            self.cancelled.cancel();
        }
        !*has_decided
    }

    /// From here on the job cannot be cancelled. False if somebody has cancelled it before.
    pub(crate) fn decide(&self) -> bool {
        let mut has_decided = lock(&self.has_decided);
        *has_decided = true;
        !self.cancelled.is_cancelled()
    }

    pub(crate) fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    pub(crate) fn set_spending(&self, spending: &Spending) {
        lock(&self.spending).clone_from(spending);
    }

    /// Puts what only the worker knows yet into a record of the job.
    fn complete(&self, job: &mut Job) {
        let spending = lock(&self.spending);
        job.ran_millis = self.stopwatch.millis();
        job.spending = Spending {
            seconds: job.ran_millis as f64 / 1000.0,
            ..spending.clone()
        };
    }

    /// The job begins to wait for a message, or stops to.
    pub(crate) fn set_waiting(&self, since: Option<Instant>) {
        *lock(&self.waiting) = since;
    }

    fn waiting(&self) -> Option<Instant> {
        *lock(&self.waiting)
    }
}

/// All jobs that have a worker.
#[derive(Debug, Default)]
pub(crate) struct Roster(Mutex<HashMap<JobId, Arc<Claimed>>>);

impl Roster {
    pub(crate) fn find(&self, id: JobId) -> Option<Arc<Claimed>> {
        self.all().get(&id).cloned()
    }

    /// A job's record with what its worker knows beside it, if it has one under that claim.
    pub(crate) fn complete(&self, mut job: Job) -> Job {
        let claimed = self.find(job.id).filter(|claimed| {
            let is_claimed = matches!(job.state, State::Running | State::Waiting);
            is_claimed && claimed.epoch == job.epoch
        });
        if let Some(claimed) = claimed {
            claimed.complete(&mut job);
        }
        job
    }

    /// A new claim takes the place of an earlier one, whose worker has given the job back but was
    /// not yet told to [`leave`](Self::leave).
    pub(crate) fn enter(&self, id: JobId, claimed: Arc<Claimed>) {
        if let Some(earlier) = self.all().insert(id, claimed) {
            earlier.left.cancel();
        }
    }

    /// Removes the worker of that claim. A later claim of the same job stays.
    pub(crate) fn leave(&self, id: JobId, epoch: u32) {
        let mut all = self.all();
        if all.get(&id).is_some_and(|claimed| claimed.epoch == epoch)
            && let Some(claimed) = all.remove(&id)
        {
            claimed.left.cancel();
        }
    }

    /// Every worker is to leave its job to a later one.
    pub(crate) fn park(&self) {
        for claimed in self.all().values() {
            claimed.parked.cancel();
        }
    }

    /// Asks the job that has waited longest to make room.
    pub(crate) fn press(&self) {
        let all = self.all();
        let waiting = all
            .values()
            .filter(|claimed| !claimed.pressed.is_cancelled());
        let longest = waiting
            .filter_map(|claimed| Some((claimed.waiting()?, claimed)))
            .min_by_key(|(since, _)| *since);
        if let Some((_, claimed)) = longest {
            claimed.pressed.cancel();
        }
    }

    pub(crate) fn beats(&self) -> Vec<Beat> {
        let all = self.all();
        let beats = all.iter().map(|(id, claimed)| Beat {
            job: *id,
            epoch: claimed.epoch,
            ran_millis: claimed.stopwatch.millis(),
        });
        beats.collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Claimed>>> {
        lock(&self.0)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use jiff::Timestamp;
    use protocol::job::JobRequest;
    use uuid::Uuid;

    use super::*;

    fn claimed() -> Claimed {
        let id = JobId(Uuid::nil());
        let job = Job::new(id, "a".into(), JobRequest::default(), Timestamp::UNIX_EPOCH);
        Claimed::new(&job, Arc::new(AwakeClock::start()))
    }

    #[tokio::test]
    async fn a_job_is_cancelled_or_has_its_end_but_not_both() {
        let early = claimed();
        assert!(early.cancel());
        assert!(!early.decide());
        let late = claimed();
        assert!(late.decide());
        assert!(!late.cancel());
        assert!(!late.cancelled.is_cancelled());
    }
}
