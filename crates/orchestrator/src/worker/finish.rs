//! Ends the work on a job: packs the workspace and stores the end, or requeues the job.

use jiff::Timestamp;
use protocol::Spending;
use protocol::job::{Artifact, Cause, Parked};
use tracing::{error, info};

use super::parking::{self, TransientFailure};
use super::{WorkResult, Worker, WorkerExit};
use crate::artifact::{self, ZipLimits};
use crate::exhaustion;
use crate::job::{FinishedJob, JobChange, JobEnd, cancelled};
use crate::parts::{ChangeError, StoreRetry, chain};

/// Why packing failed.
struct PackFailure {
    reason: String,
    /// Set if a resource of the server was exhausted.
    failure: Option<TransientFailure>,
}

impl Worker {
    pub(super) async fn end(mut self, ending: WorkResult) -> WorkerExit {
        self.claimed.stopwatch.pause();
        match ending {
            WorkResult::Ended { end, is_last } => self.finish(end, is_last).await,
            WorkResult::Parked => self.park(None).await,
            WorkResult::Deferred(failure) => self.defer(failure).await,
            WorkResult::Lost => WorkerExit::Unknown,
        }
    }

    async fn finish(&mut self, end: JobEnd, is_last: bool) -> WorkerExit {
        let packed = self.pack().await;
        // The job may have been cancelled while it was packed.
        let (end, is_last) = if self.claimed.decide() {
            (end, is_last)
        } else {
            (cancelled(), true)
        };
        let (artifact, end) = match (packed, end) {
            (Ok(artifact), end) => (artifact, end),
            (Err(unpacked), JobEnd::Complete) => {
                // The next claim only has to pack.
                if let Some(parked) = unpacked.failure.and_then(|failure| self.parked(&failure)) {
                    return self.park(Some(parked)).await;
                }
                (None, JobEnd::failed(Cause::Artifact, unpacked.reason))
            }
            (Err(unpacked), end) => {
                self.log_line("artifact", unpacked.reason);
                (None, end)
            }
        };
        match &end {
            JobEnd::Complete => self.log_line("job", "complete"),
            JobEnd::Failed(failure) => {
                self.log_line("job", format_args!("failed: {}", failure.message))
            }
        }
        let ran_millis = self.claimed.stopwatch.millis();
        let change = JobChange::Finish(Box::new(FinishedJob {
            epoch: self.claimed.epoch,
            ran_millis,
            end,
            answer: self.progress.answer.clone(),
            artifact,
            spending: Spending {
                seconds: ran_millis as f64 / 1000.0,
                ..self.progress.spending.clone()
            },
        }));
        match self.write_end(change, is_last).await {
            Ok(true) => WorkerExit::Ended,
            Ok(false) => self.park(None).await,
            Err(error) => self.exit_unknown(&error),
        }
    }

    /// Stores the end; false if a new message must be handled first.
    async fn write_end(&mut self, change: JobChange, is_last: bool) -> Result<bool, ChangeError> {
        let mut retry = StoreRetry::new(self.claimed.parked.clone());
        loop {
            match self.try_end(&change, is_last).await {
                Err(ChangeError::Store(error)) => retry.wait(error).await?,
                outcome => return outcome,
            }
        }
    }

    async fn try_end(&mut self, change: &JobChange, is_last: bool) -> Result<bool, ChangeError> {
        let Self { parts, job, .. } = self;
        loop {
            if !is_last && job.messages > self.progress.turns {
                return Ok(false);
            }
            if parts.try_change(job, change.clone(), None).await? {
                return Ok(true);
            }
            *job = parts.jobs.job(job.id).await?.ok_or(ChangeError::Gone)?;
        }
    }

    /// Parks the job, or ends it if it was parked for too long.
    async fn defer(&mut self, failure: TransientFailure) -> WorkerExit {
        if let Some(parked) = self.parked(&failure) {
            return self.park(Some(parked)).await;
        }
        let longest = self.parts.config.outages.longest_parked.as_secs();
        let reason = failure.reason;
        let message = format!("{reason}; it was parked for {longest} seconds in vain");
        self.finish(JobEnd::failed(failure.cause, message), true)
            .await
    }

    /// The parking record of the job; `None` if it was parked for too long.
    fn parked(&self, failure: &TransientFailure) -> Option<Parked> {
        let has_progressed = self.progress.replies > self.replies_before;
        let before = self.job.parked.as_ref().filter(|_| !has_progressed);
        let settings = &self.parts.config.outages;
        parking::park(failure, before, settings, Timestamp::now(), fastrand::f64())
    }

    async fn park(&mut self, parked: Option<Parked>) -> WorkerExit {
        match &parked {
            None => self.log_line("job", "left to a later claim"),
            Some(parked) => {
                let Parked {
                    reason,
                    failures,
                    not_before,
                    ..
                } = parked;
                info!(job = %self.job.id, failures, %not_before, reason, "job parked");
                self.log_line(
                    "job",
                    format_args!("parked until {not_before:.0}: {reason}"),
                );
            }
        }
        let change = JobChange::Park {
            epoch: self.claimed.epoch,
            ran_millis: self.claimed.stopwatch.millis(),
            parked,
        };
        let give_up = self.claimed.parked.clone();
        match self
            .parts
            .change_with_retry(&mut self.job, change, &give_up)
            .await
        {
            Ok(()) => WorkerExit::Queued,
            Err(error) => self.exit_unknown(&error),
        }
    }

    /// The record is unchanged, so the next server recovers the job.
    fn exit_unknown(&self, error: &ChangeError) -> WorkerExit {
        error!(job = %self.job.id, error = %chain(error), "cannot store the end of a worker");
        WorkerExit::Unknown
    }

    /// Packs the workspace, if there is one.
    async fn pack(&self) -> Result<Option<Artifact>, PackFailure> {
        let workspace = self.folder.workspace();
        let output = self.folder.output();
        let bounds = ZipLimits::of(self.parts.config.largest_zip);
        let pack = move || match workspace.symlink_metadata() {
            Ok(_) => artifact::pack(&workspace, &output, bounds).map(Some),
            // The job ended before its workspace was created.
            Err(_) => Ok(None),
        };
        match tokio::task::spawn_blocking(pack).await {
            Ok(Ok(artifact)) => Ok(artifact),
            Ok(Err(error)) => {
                let reason = chain(&error);
                let what = exhaustion::what_ran_out(&error);
                Err(PackFailure {
                    failure: what.map(|what| TransientFailure::starved(what, &reason)),
                    reason,
                })
            }
            Err(_) => Err(PackFailure {
                reason: "the packing broke: this is a bug in hotcell".to_owned(),
                failure: None,
            }),
        }
    }
}
