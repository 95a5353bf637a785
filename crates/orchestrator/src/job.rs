//! The life cycle of a job as a pure function: the job after a change.
//!
//! Uses no clock, store or sandbox. To apply a [`JobChange`], read the job, call [`transition`], and
//! write the result by compare-and-swap.

use jiff::Timestamp;
use protocol::job::{Artifact, Cause, Failure, Job, JobState, Parked};
use protocol::{SessionId, Spending};

/// A change of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum JobChange {
    /// A worker claims the job. `session` is used if the job has none yet.
    Claim { session: SessionId },
    /// The server died while the job was claimed.
    Crash,
    /// The worker requeues the job, because the server shuts down, a message arrived at the very
    /// end, or a failure is transient.
    Park {
        epoch: u32,
        ran_millis: u64,
        /// When to continue, if not as soon as possible.
        parked: Option<Parked>,
    },
    /// A turn has ended and there is no further message.
    Wait { epoch: u32, ran_millis: u64 },
    /// There is a new message.
    Resume { epoch: u32 },
    /// The job has ended and its artifact is published.
    Finish(Box<FinishedJob>),
    /// The user cancels a job without a worker. A claimed job must be cancelled through its worker.
    Cancel,
    /// The user adds a message. Requeues a job that has ended.
    AddMessage,
}

/// The result that a worker reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FinishedJob {
    pub(crate) epoch: u32,
    pub(crate) ran_millis: u64,
    pub(crate) end: JobEnd,
    pub(crate) answer: Option<String>,
    pub(crate) artifact: Option<Artifact>,
    pub(crate) spending: Spending,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobEnd {
    Complete,
    Failed(Failure),
}

impl JobEnd {
    pub(crate) fn failed(cause: Cause, message: impl Into<String>) -> Self {
        Self::Failed(Failure {
            cause,
            message: message.into(),
        })
    }
}

impl From<JobEnd> for JobState {
    fn from(end: JobEnd) -> Self {
        match end {
            JobEnd::Complete => Self::Complete,
            JobEnd::Failed(failure) => Self::Failed { failure },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChangeRefused {
    #[error("the job has ended")]
    Ended,
    #[error("another claim of the job has begun")]
    Fenced,
    #[error("no worker has claimed the job")]
    NotClaimed,
    #[error("a worker has claimed the job")]
    Claimed,
}

/// Server crashes after which a job is not requeued again.
pub(crate) const MAX_CRASHES: u32 = 100;

pub(crate) fn transition(
    job: &Job,
    change: JobChange,
    now: Timestamp,
) -> Result<Job, ChangeRefused> {
    let mut next = job.clone();
    match change {
        JobChange::Claim { session } => {
            require_queued(job)?;
            next.epoch += 1;
            next.started.get_or_insert(now);
            next.session.get_or_insert(session);
            next.state = JobState::Running;
        }
        JobChange::Crash => {
            require_claimed(job)?;
            next.crashes += 1;
            match next.crashes {
                MAX_CRASHES.. => {
                    let message = format!("the server died {} times under it", next.crashes);
                    end(&mut next, JobEnd::failed(Cause::Crashes, message), now);
                }
                _ => next.state = JobState::Queued,
            }
        }
        JobChange::Park {
            epoch,
            ran_millis,
            parked,
        } => {
            require_claim(job, epoch)?;
            add_run_time(&mut next, ran_millis);
            next.parked = parked;
            next.state = JobState::Queued;
        }
        JobChange::Wait { epoch, ran_millis } => {
            require_claim(job, epoch)?;
            add_run_time(&mut next, ran_millis);
            next.parked = None;
            next.state = JobState::Waiting;
        }
        JobChange::Resume { epoch } => {
            require_claim(job, epoch)?;
            next.state = JobState::Running;
        }
        JobChange::Finish(finish) => {
            require_claim(job, finish.epoch)?;
            add_run_time(&mut next, finish.ran_millis);
            next.answer = finish.answer;
            next.artifact = finish.artifact;
            next.spending = finish.spending;
            end(&mut next, finish.end, now);
        }
        JobChange::Cancel => {
            require_queued(job)?;
            end(&mut next, cancelled(), now);
        }
        JobChange::AddMessage => {
            next.messages += 1;
            // A new message ends the wait for an outage.
            if let Some(parked) = &mut next.parked {
                parked.not_before = now;
            }
            if job.state.has_ended() {
                next.state = JobState::Queued;
                next.ended = None;
                next.crashes = 0;
            }
        }
    }
    Ok(next)
}

/// The address of the published zip of a complete job.
pub(crate) fn result_url(job: &Job) -> Option<String> {
    let is_complete = job.state == JobState::Complete && job.artifact.is_some();
    is_complete.then(|| format!("/jobs/{}/output.zip", job.id))
}

/// The end of a cancelled job.
pub(crate) fn cancelled() -> JobEnd {
    JobEnd::failed(Cause::Cancelled, "it was cancelled")
}

fn end(job: &mut Job, end: JobEnd, now: Timestamp) {
    job.state = end.into();
    job.parked = None;
    job.ended = Some(now);
}

/// Run time never decreases.
fn add_run_time(job: &mut Job, ran_millis: u64) {
    job.ran_millis = job.ran_millis.max(ran_millis);
}

fn require_queued(job: &Job) -> Result<(), ChangeRefused> {
    match job.state {
        JobState::Queued => Ok(()),
        JobState::Running | JobState::Waiting => Err(ChangeRefused::Claimed),
        JobState::Complete | JobState::Failed { .. } => Err(ChangeRefused::Ended),
    }
}

fn require_claimed(job: &Job) -> Result<(), ChangeRefused> {
    match job.state {
        JobState::Running | JobState::Waiting => Ok(()),
        JobState::Queued => Err(ChangeRefused::NotClaimed),
        JobState::Complete | JobState::Failed { .. } => Err(ChangeRefused::Ended),
    }
}

fn require_claim(job: &Job, epoch: u32) -> Result<(), ChangeRefused> {
    if job.epoch == epoch {
        require_claimed(job)
    } else {
        Err(ChangeRefused::Fenced)
    }
}

#[cfg(test)]
mod tests;
