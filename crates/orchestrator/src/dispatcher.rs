//! Chooses which job runs next, fairly between users, and starts its worker.
//!
//! Wakes up when a job was scheduled or ended, never periodically. Entry type: [`Dispatcher`].

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::SessionId;
use protocol::job::{Cause, Job};
use store::StoreError;
use store::jobs::ClaimFilter;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{error, info};

use crate::job::{FinishedJob, JobChange, JobEnd};
use crate::parts::{ChangeError, ServerParts, chain};
use crate::running_jobs::ClaimedJob;
use crate::worker::{self, WorkerExit};

/// Delay after a store error, unless something happens earlier.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Maximum time until users with deferred jobs are checked again.
const MAX_DEFERRED_WAIT: Duration = Duration::from_secs(30);

/// The result of looking for a user's next job.
enum ClaimCandidate {
    Job(Box<Job>),
    /// All queued jobs are parked, or their provider is failing.
    NotYet,
    None,
}

#[derive(Debug)]
pub(crate) struct Dispatcher {
    parts: Arc<ServerParts>,
    workers: JoinSet<WorkerExit>,
    /// The job of each worker by its task id, so that the job of a panicked worker is known.
    jobs: HashMap<Id, Job>,
    /// Distinguishes sessions that begin at the same time.
    number: u32,
}

impl Dispatcher {
    pub(crate) fn new(parts: Arc<ServerParts>) -> Self {
        Self {
            parts,
            workers: JoinSet::new(),
            jobs: HashMap::new(),
            number: fastrand::u32(..),
        }
    }

    /// Runs until shutdown. Then waits for the workers up to the drain timeout, and makes the
    /// others park their jobs.
    pub(crate) async fn run(mut self) {
        let parts = self.parts.clone();
        loop {
            let has_filled = self.fill().await;
            let next_check = self.next_check().await;
            tokio::select! {
                biased;
                () = parts.ending.cancelled() => break,
                Some(ended) = self.workers.join_next_with_id() => self.clear(ended).await,
                () = parts.loads.changed() => {}
                () = tokio::time::sleep(STORE_RETRY_DELAY), if !has_filled => {}
                () = sleep_until_some(next_check) => parts.loads.wake_deferred(),
            }
        }
        self.drain().await;
    }

    async fn drain(mut self) {
        let parts = self.parts.clone();
        let deadline = Instant::now() + parts.config.drain;
        while let Ok(Some(ended)) = timeout_at(deadline, self.workers.join_next_with_id()).await {
            self.clear(ended).await;
        }
        info!(jobs = self.jobs.len(), "jobs parked");
        parts.running_jobs.park_all();
        while let Some(ended) = self.workers.join_next_with_id().await {
            self.clear(ended).await;
        }
    }

    /// Starts workers while there are free slots and queued jobs. False if it should be retried
    /// after a delay, because the store failed or the disk is full.
    async fn fill(&mut self) -> bool {
        let parts = self.parts.clone();
        while !parts.ending.is_cancelled() {
            let Some(next) = parts.loads.choose() else {
                return true;
            };
            if !parts.disk.has_room() {
                // Retried after a delay.
                return false;
            }
            if self.workers.len() >= parts.config.concurrency {
                // Ask a job that only waits for a message to free its slot.
                parts.running_jobs.request_yield();
                return true;
            }
            let job = match self.find(&next.owner).await {
                Ok(ClaimCandidate::Job(job)) => *job,
                Ok(ClaimCandidate::NotYet) => {
                    parts.loads.defer(&next);
                    continue;
                }
                Ok(ClaimCandidate::None) => {
                    parts.loads.reset_queued(&next);
                    continue;
                }
                Err(error) => {
                    error!(error = %chain(&error), "cannot look for queued jobs");
                    return false;
                }
            };
            if let Err(error) = self.start(job).await {
                error!(error = %chain(&error), "cannot claim a job");
                return false;
            }
        }
        true
    }

    /// The next claimable job of a user.
    async fn find(&self, owner: &str) -> Result<ClaimCandidate, StoreError> {
        let parts = &self.parts;
        let claimable = ClaimFilter {
            now: Timestamp::now(),
            blocked: self.blocked_models(owner).await?,
            longest_parked: parts.config.outages.longest_parked,
        };
        if let Some(job) = parts.jobs.next_queued(owner, &claimable).await? {
            return Ok(ClaimCandidate::Job(Box::new(job)));
        }
        Ok(match parts.jobs.oldest_queued(owner).await? {
            Some(_) => ClaimCandidate::NotYet,
            None => ClaimCandidate::None,
        })
    }

    /// Models of a user's queued jobs whose provider is failing.
    async fn blocked_models(&self, owner: &str) -> Result<Vec<Option<String>>, StoreError> {
        let parts = &self.parts;
        if !parts.breakers.has_outage() {
            return Ok(Vec::new());
        }
        let mut models = parts.jobs.queued_models(owner).await?;
        models.retain(|model| {
            let provider = parts.models.provider_or_default(model.as_deref());
            parts.breakers.is_blocked(&provider)
        });
        Ok(models)
    }

    /// When to check users with deferred jobs again; `None` if there are none.
    async fn next_check(&self) -> Option<Instant> {
        let parts = &self.parts;
        if !parts.loads.has_deferred() {
            return None;
        }
        let now = Timestamp::now();
        let due = parts.jobs.next_unparked(now).await.ok().flatten();
        let wait = due.and_then(|due| Duration::try_from(due.duration_since(now)).ok());
        // The wall clock may jump.
        let due = Instant::now() + wait.unwrap_or(MAX_DEFERRED_WAIT).min(MAX_DEFERRED_WAIT);
        Some(
            parts
                .breakers
                .next_probe()
                .map_or(due, |probe| probe.min(due)),
        )
    }

    /// Claims a job and starts its worker, unless the record changed meanwhile.
    async fn start(&mut self, mut job: Job) -> Result<(), StoreError> {
        let parts = self.parts.clone();
        let session = match &job.session {
            Some(session) => session.clone(),
            None => self.new_session().await?,
        };
        // Register before the claim is stored: a reader who sees the claim must find the worker.
        let claimed = Arc::new(ClaimedJob::new(&job, parts.clock.clone()));
        parts.running_jobs.insert(job.id, claimed.clone());
        let provider = parts
            .models
            .provider_or_default(job.request.model.as_deref());
        parts.breakers.claimed(&provider, job.id, claimed.epoch);
        let change = JobChange::Claim { session };
        let outcome = parts.try_change(&mut job, change, None).await;
        if !matches!(outcome, Ok(true)) {
            parts.running_jobs.remove(job.id, claimed.epoch);
            parts.breakers.worker_exited(job.id, claimed.epoch);
        }
        match outcome {
            Ok(true) => {}
            // The next round looks for a job again.
            Ok(false) | Err(ChangeError::Refused(_) | ChangeError::Gone) => return Ok(()),
            Err(ChangeError::Store(error)) => return Err(error),
        }
        parts.loads.claimed(&job.owner);
        info!(job = %job.id, epoch = job.epoch, "job claimed");
        let work = worker::run_job(parts, job.clone(), claimed);
        let task = self.workers.spawn(work);
        self.jobs.insert(task.id(), job);
        Ok(())
    }

    /// Cleans up after a worker.
    async fn clear(&mut self, ended: Result<(Id, WorkerExit), JoinError>) {
        let (id, exit) = match ended {
            Ok((id, exit)) => (id, Some(exit)),
            Err(error) => (error.id(), None),
        };
        let Some(job) = self.jobs.remove(&id) else {
            return;
        };
        let exit = match exit {
            Some(exit) => exit,
            None => self.fail_panicked_job(&job).await,
        };
        let parts = &self.parts;
        parts.running_jobs.remove(job.id, job.epoch);
        parts.disk.release_grant(job.id);
        if parts.breakers.worker_exited(job.id, job.epoch) {
            parts.loads.wake_deferred();
        }
        if exit == WorkerExit::Queued {
            parts.loads.record_requeue(&job.owner);
        }
        parts.loads.ended(&job.owner);
        info!(job = %job.id, ?exit, "worker exited");
    }

    /// Ends a job whose worker panicked.
    async fn fail_panicked_job(&self, job: &Job) -> WorkerExit {
        error!(job = %job.id, "worker panicked");
        let parts = &self.parts;
        let change = JobChange::Finish(Box::new(FinishedJob {
            epoch: job.epoch,
            ran_millis: job.ran_millis,
            end: JobEnd::failed(Cause::Server, "its worker broke: this is a bug in hotcell"),
            answer: None,
            artifact: None,
            spending: job.spending.clone(),
        }));
        let mut job = job.clone();
        match parts
            .change_with_retry(&mut job, change, &parts.ending)
            .await
        {
            Ok(()) | Err(ChangeError::Refused(_) | ChangeError::Gone) => WorkerExit::Ended,
            Err(ChangeError::Store(_)) => WorkerExit::Unknown,
        }
    }

    /// An unused session id.
    async fn new_session(&mut self) -> Result<SessionId, StoreError> {
        loop {
            self.number = self.number.wrapping_add(1);
            let now = TimeZone::UTC.to_datetime(Timestamp::now());
            let session = SessionId::new(&now, self.number);
            if self.is_unused_session(&session).await? {
                return Ok(session);
            }
        }
    }

    async fn is_unused_session(&self, session: &SessionId) -> Result<bool, StoreError> {
        let parts = &self.parts;
        if parts.jobs.job_of_session(session).await?.is_some() {
            return Ok(false);
        }
        match parts.store.summary(session).await {
            Ok(_) => Ok(false),
            Err(StoreError::Unknown(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }
}

async fn sleep_until_some(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
