//! The jobs that have a worker now, and how to signal it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use protocol::Spending;
use protocol::job::{Job, JobId, JobState};
use store::jobs::Heartbeat;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::watch::{AwakeClock, Stopwatch};

/// The shared state of a claimed job.
#[derive(Debug)]
pub(crate) struct ClaimedJob {
    pub(crate) epoch: u32,
    pub(crate) stopwatch: Stopwatch,
    /// The job is to end as cancelled. Set by [`ClaimedJob::cancel`].
    pub(crate) cancelled: CancellationToken,
    /// The worker has decided how the job ends and is storing the end.
    has_decided: Mutex<bool>,
    /// The worker must stop now and requeue the job.
    pub(crate) parked: CancellationToken,
    /// There may be a new message.
    pub(crate) message_added: Notify,
    /// Number of interrupt requests.
    pub(crate) interrupts: watch::Sender<u64>,
    /// What the job has cost so far. Stored in the record only at the end.
    spending: Mutex<Spending>,
    /// Since when the job has been waiting for a message, if it is.
    waiting: Mutex<Option<Instant>>,
    /// Other jobs need the slot: stop waiting for a message soon.
    pub(crate) yield_requested: CancellationToken,
    /// The worker has exited.
    pub(crate) exited: CancellationToken,
}

impl ClaimedJob {
    /// For a queued job that is about to be claimed.
    pub(crate) fn new(job: &Job, clock: Arc<AwakeClock>) -> Self {
        Self {
            epoch: job.epoch + 1,
            stopwatch: Stopwatch::start(clock, Duration::from_millis(job.ran_millis)),
            cancelled: CancellationToken::new(),
            has_decided: Mutex::new(false),
            parked: CancellationToken::new(),
            message_added: Notify::new(),
            interrupts: watch::Sender::new(0),
            spending: Mutex::new(job.spending.clone()),
            waiting: Mutex::new(None),
            yield_requested: CancellationToken::new(),
            exited: CancellationToken::new(),
        }
    }

    /// Cancels the job. False if its worker has already decided on another end.
    pub(crate) fn cancel(&self) -> bool {
        let has_decided = lock(&self.has_decided);
        if !*has_decided {
            self.cancelled.cancel();
        }
        !*has_decided
    }

    /// Marks the end as decided: the job can no longer be cancelled. False if it was cancelled
    /// before.
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

    /// Updates a record with the worker's current run time and spending.
    fn write_live_data(&self, job: &mut Job) {
        let spending = lock(&self.spending);
        job.ran_millis = self.stopwatch.millis();
        job.spending = Spending {
            seconds: job.ran_millis as f64 / 1000.0,
            ..spending.clone()
        };
    }

    /// Sets since when the job waits for a message; `None` when it continues.
    pub(crate) fn set_waiting(&self, since: Option<Instant>) {
        *lock(&self.waiting) = since;
    }

    fn waiting(&self) -> Option<Instant> {
        *lock(&self.waiting)
    }
}

/// All jobs that have a worker.
#[derive(Debug, Default)]
pub(crate) struct RunningJobs(Mutex<HashMap<JobId, Arc<ClaimedJob>>>);

impl RunningJobs {
    pub(crate) fn find(&self, id: JobId) -> Option<Arc<ClaimedJob>> {
        self.all().get(&id).cloned()
    }

    /// Updates a record with its worker's current data, if it has a worker under the same claim.
    pub(crate) fn with_live_data(&self, mut job: Job) -> Job {
        let claimed = self.find(job.id).filter(|claimed| {
            let is_claimed = matches!(job.state, JobState::Running | JobState::Waiting);
            is_claimed && claimed.epoch == job.epoch
        });
        if let Some(claimed) = claimed {
            claimed.write_live_data(&mut job);
        }
        job
    }

    /// Adds a claim. Replaces an earlier one whose worker has requeued the job but was not yet
    /// removed by [`RunningJobs::remove`].
    pub(crate) fn insert(&self, id: JobId, claimed: Arc<ClaimedJob>) {
        if let Some(earlier) = self.all().insert(id, claimed) {
            earlier.exited.cancel();
        }
    }

    /// Removes a claim. A later claim of the same job stays.
    pub(crate) fn remove(&self, id: JobId, epoch: u32) {
        let mut all = self.all();
        if all.get(&id).is_some_and(|claimed| claimed.epoch == epoch)
            && let Some(claimed) = all.remove(&id)
        {
            claimed.exited.cancel();
        }
    }

    /// Tells every worker to requeue its job.
    pub(crate) fn park_all(&self) {
        for claimed in self.all().values() {
            claimed.parked.cancel();
        }
    }

    /// Asks the job that has waited longest for a message to free its slot.
    pub(crate) fn request_yield(&self) {
        let all = self.all();
        let waiting = all
            .values()
            .filter(|claimed| !claimed.yield_requested.is_cancelled());
        let longest = waiting
            .filter_map(|claimed| Some((claimed.waiting()?, claimed)))
            .min_by_key(|(since, _)| *since);
        if let Some((_, claimed)) = longest {
            claimed.yield_requested.cancel();
        }
    }

    pub(crate) fn heartbeats(&self) -> Vec<Heartbeat> {
        let all = self.all();
        let heartbeats = all.iter().map(|(id, claimed)| Heartbeat {
            job: *id,
            epoch: claimed.epoch,
            ran_millis: claimed.stopwatch.millis(),
        });
        heartbeats.collect()
    }

    fn all(&self) -> MutexGuard<'_, HashMap<JobId, Arc<ClaimedJob>>> {
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

    fn claimed() -> ClaimedJob {
        let id = JobId(Uuid::nil());
        let job = Job::new(id, "a".into(), JobRequest::default(), Timestamp::UNIX_EPOCH);
        ClaimedJob::new(&job, Arc::new(AwakeClock::start()))
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
