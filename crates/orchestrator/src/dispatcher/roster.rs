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

use crate::watch::Stopwatch;

/// A job that a worker has, as others see it.
#[derive(Debug)]
pub(crate) struct Claimed {
    pub(crate) epoch: u32,
    pub(crate) stopwatch: Stopwatch,
    /// Somebody wants the job to end.
    pub(crate) cancelled: CancellationToken,
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
    pub(crate) fn new(job: &Job) -> Self {
        Self {
            epoch: job.epoch + 1,
            stopwatch: Stopwatch::start(Duration::from_millis(job.ran_millis)),
            cancelled: CancellationToken::new(),
            parked: CancellationToken::new(),
            spoken: Notify::new(),
            interrupts: watch::Sender::new(0),
            spending: Mutex::new(job.spending.clone()),
            waiting: Mutex::new(None),
            pressed: CancellationToken::new(),
            left: CancellationToken::new(),
        }
    }

    pub(crate) fn interrupt(&self) {
        self.interrupts.send_modify(|count| *count += 1);
    }

    pub(crate) fn set_spending(&self, spending: &Spending) {
        let mut kept = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clone_from(spending);
    }

    /// Puts what only the worker knows yet into a record of the job.
    fn complete(&self, job: &mut Job) {
        let spending = self.spending.lock().unwrap_or_else(PoisonError::into_inner);
        job.ran_millis = self.stopwatch.millis();
        job.spending = Spending {
            seconds: job.ran_millis as f64 / 1000.0,
            ..spending.clone()
        };
    }

    /// The job begins to wait for a message, or stops to.
    pub(crate) fn set_waiting(&self, since: Option<Instant>) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    fn waiting(&self) -> Option<Instant> {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
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

    pub(crate) fn enter(&self, id: JobId, claimed: Arc<Claimed>) {
        self.all().insert(id, claimed);
    }

    pub(crate) fn leave(&self, id: JobId) {
        if let Some(claimed) = self.all().remove(&id) {
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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
