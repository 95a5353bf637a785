//! State shared by the application, the dispatcher and the workers of one server, and the only way
//! to change a job's record.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use audit::AuditLog;
use jiff::Timestamp;
use protocol::job::{Job, JobId};
use store::jobs::{ChangeExtras, ChangeResult};
use store::{JobStore, SessionStore, StoreError};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::breaker::Breakers;
use crate::config::ServerConfig;
use crate::disk::Disk;
use crate::hub::Hub;
use crate::job::{ChangeRefused, JobChange, transition};
use crate::loads::LoadTracker;
use crate::ports::ServerModels;
use crate::running_jobs::RunningJobs;
use crate::watch::AwakeClock;
use crate::webhook_body::notice;

#[derive(Debug)]
pub(crate) struct ServerParts {
    pub(crate) config: ServerConfig,
    pub(crate) address: SocketAddr,
    pub(crate) clock: Arc<AwakeClock>,
    pub(crate) jobs: JobStore,
    pub(crate) store: SessionStore,
    pub(crate) models: Arc<dyn ServerModels>,
    pub(crate) audit: Arc<AuditLog>,
    pub(crate) hub: Hub,
    pub(crate) loads: Arc<LoadTracker>,
    pub(crate) running_jobs: RunningJobs,
    pub(crate) breakers: Breakers,
    pub(crate) disk: Disk,
    /// Jobs of the last server that could not be requeued yet.
    pub(crate) unrecovered: Mutex<Vec<Job>>,
    /// Wakes the webhook task.
    pub(crate) deliveries: Arc<Notify>,
    /// Receives ended jobs, for retention. If the channel is full, the next retention round finds
    /// them.
    pub(crate) ended: mpsc::Sender<JobId>,
    /// The server is shutting down: nothing new is started.
    pub(crate) ending: CancellationToken,
    /// All jobs have stopped: followers end.
    pub(crate) closing: CancellationToken,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangeError {
    #[error(transparent)]
    Refused(#[from] ChangeRefused),
    #[error("the job is gone")]
    Gone,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Delay between tries of a write that must not be lost. Doubled each time.
const MIN_RETRY_DELAY: Duration = Duration::from_millis(100);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(5);

impl ServerParts {
    /// Changes a job's record. `job` is the caller's copy, and is updated to the stored record. If
    /// the record was changed meanwhile, the change is tried again on the new one.
    pub(crate) async fn change(
        &self,
        job: &mut Job,
        change: JobChange,
        message: Option<&str>,
    ) -> Result<(), ChangeError> {
        loop {
            if self.try_change(job, change.clone(), message).await? {
                return Ok(());
            } else {
                *job = self.jobs.job(job.id).await?.ok_or(ChangeError::Gone)?
            }
        }
    }

    /// Changes the record only if it is still the caller's copy; false if not.
    pub(crate) async fn try_change(
        &self,
        job: &mut Job,
        change: JobChange,
        message: Option<&str>,
    ) -> Result<bool, ChangeError> {
        let next = transition(job, change, Timestamp::now())?;
        let has_ended = next.state.has_ended();
        let delivery = has_ended.then(|| notice(&next)).flatten();
        let is_due = delivery.is_some();
        let along = ChangeExtras {
            message: message.map(str::to_owned),
            delivery,
        };
        let changed = match self.jobs.change(next.clone(), along.clone()).await {
            // Ending or parking a job frees space in the end, so it may use the reserve.
            Err(error) if error.may_be_full() && self.disk.release() => {
                self.jobs.change(next, along).await?
            }
            changed => changed?,
        };
        match changed {
            ChangeResult::Stale => Ok(false),
            ChangeResult::Saved(saved) => {
                *job = *saved;
                self.hub.publish_job(job);
                if is_due {
                    self.deliveries.notify_one();
                }
                if has_ended {
                    let _ = self.ended.try_send(job.id);
                }
                Ok(true)
            }
        }
    }

    /// Changes a job's record and retries while the store fails, until the change succeeds, is
    /// refused, or `give_up` is cancelled.
    pub(crate) async fn change_with_retry(
        &self,
        job: &mut Job,
        change: JobChange,
        give_up: &CancellationToken,
    ) -> Result<(), ChangeError> {
        let mut retry = StoreRetry::new(give_up.clone());
        loop {
            match self.change(job, change.clone(), None).await {
                Err(ChangeError::Store(error)) => retry.wait(error).await?,
                outcome => return outcome,
            }
        }
    }
}

/// Retries with increasing delay, for writes that must survive temporary store failures.
#[derive(Debug)]
pub(crate) struct StoreRetry {
    wait: Duration,
    give_up: CancellationToken,
}

impl StoreRetry {
    pub(crate) fn new(give_up: CancellationToken) -> Self {
        Self {
            wait: MIN_RETRY_DELAY,
            give_up,
        }
    }

    /// Waits, longer each time. Returns the error when `give_up` is cancelled.
    pub(crate) async fn wait(&mut self, error: StoreError) -> Result<(), ChangeError> {
        error!(error = %chain(&error), "store failed, trying again");
        tokio::select! {
            () = self.give_up.cancelled() => return Err(error.into()),
            () = tokio::time::sleep(self.wait) => {}
        }
        self.wait = (self.wait * 2).min(MAX_RETRY_DELAY);
        Ok(())
    }
}

/// An error with all its sources, in one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let more = cause.to_string();
        // Some libraries repeat the source in their own message.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        source = cause.source();
    }
    text
}
