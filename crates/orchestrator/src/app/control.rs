//! Sends messages to jobs, interrupts and cancels them.

use std::time::Duration;

use protocol::job::{Job, JobId, JobState};
use tokio::time::{Instant, timeout};

use super::admission::check_message;
use super::{App, AppError, Caller};
use crate::job::JobChange;
use crate::parts::ChangeError;
use crate::recovery::retry_recovery;

/// How long a caller waits for a cancelled job to end. An end reported within this time is already
/// stored, so it survives a crash.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(15);

/// Delay between polls of a job whose state is about to change.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

impl App {
    /// Adds a message to a job: the next turn of a running job. Requeues a job that has ended.
    pub(crate) async fn send_message(
        &self,
        caller: &Caller,
        id: JobId,
        text: String,
    ) -> Result<Job, AppError> {
        check_message("text", &text)?;
        let job = self.job(caller, id).await?;
        let app = self.clone();
        // Completes even if the caller disconnects, because a requeued job must be counted.
        let stored = tokio::spawn(async move { app.add_message(job, &text).await });
        stored.await.unwrap_or_else(|_| Err(AppError::Lost))
    }

    async fn add_message(&self, mut job: Job, text: &str) -> Result<Job, AppError> {
        let id = job.id;
        loop {
            // Decided again for each version of the record.
            let reservation = if job.state.has_ended() {
                Some(self.reserve(&job.owner)?)
            } else {
                None
            };
            let added = self
                .parts
                .try_change(&mut job, JobChange::AddMessage, Some(text))
                .await;
            if matches!(added, Ok(true) | Err(ChangeError::Store(_)))
                && let Some(reservation) = reservation
            {
                reservation.commit();
            }
            if added.map_err(|error| AppError::of(error, id))? {
                break;
            }
            let found = self.parts.jobs.job(id).await?;
            job = found.ok_or(AppError::NoJob(id))?;
        }
        if let Some(claimed) = self.parts.running_jobs.find(id) {
            claimed.message_added.notify_one();
        }
        if job.parked.is_some() {
            self.parts.loads.wake_deferred();
        }
        Ok(job)
    }

    /// Stops the current turn.
    pub(crate) async fn interrupt(&self, caller: &Caller, id: JobId) -> Result<Job, AppError> {
        let job = self.job(caller, id).await?;
        match (&job.state, self.parts.running_jobs.find(id)) {
            (JobState::Running, Some(claimed)) => {
                claimed.interrupt();
                Ok(job)
            }
            _ => {
                let reason = "the job has no turn under way";
                Err(AppError::Conflict(reason.to_owned()))
            }
        }
    }

    /// Cancels a job. A running job is stopped and its workspace is packed.
    pub(crate) async fn cancel(&self, caller: &Caller, id: JobId) -> Result<Job, AppError> {
        let job = self.job(caller, id).await?;
        let app = self.clone();
        let cancelled = tokio::spawn(async move { app.cancel_job(job).await });
        cancelled.await.unwrap_or_else(|_| Err(AppError::Lost))
    }

    async fn cancel_job(&self, mut job: Job) -> Result<Job, AppError> {
        let id = job.id;
        let begun = Instant::now();
        loop {
            match job.state {
                JobState::Complete | JobState::Failed { .. } => {
                    return Err(AppError::Conflict("the job has ended".to_owned()));
                }
                JobState::Queued => {
                    match self
                        .parts
                        .try_change(&mut job, JobChange::Cancel, None)
                        .await
                    {
                        Ok(true) => {
                            self.parts.loads.dequeue(&job.owner);
                            return Ok(job);
                        }
                        Ok(false) => {}
                        Err(error) => return Err(AppError::of(error, id)),
                    }
                }
                JobState::Running | JobState::Waiting => {
                    if let Some(claimed) = self.parts.running_jobs.find(id) {
                        let is_cancelled = claimed.cancel();
                        let left = timeout(CANCEL_TIMEOUT, claimed.exited.cancelled()).await;
                        let found = self.parts.jobs.job(id).await?;
                        job = found.ok_or(AppError::NoJob(id))?;
                        match left {
                            Ok(()) if !job.state.has_ended() => continue,
                            _ if is_cancelled => return Ok(job),
                            _ => {
                                let reason = "the job ended before it could be cancelled";
                                return Err(AppError::Conflict(reason.to_owned()));
                            }
                        }
                    }
                    // Either its worker has just left and the record is about to be written, or the
                    // last server died and the disk was too full to requeue the job.
                    retry_recovery(&self.parts).await;
                    if begun.elapsed() > CANCEL_TIMEOUT {
                        return Ok(job);
                    }
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
            let found = self.parts.jobs.job(id).await?;
            job = found.ok_or(AppError::NoJob(id))?;
        }
    }
}
