//! The life cycle of a job as a pure function: the job after a change.
//!
//! Uses no clock, store or sandbox. To apply a [`Change`], read the job, call [`transition`], and
//! write the result by compare-and-swap.

use jiff::Timestamp;
use protocol::job::{Artifact, Cause, Failure, Job, Parked, State};
use protocol::{SessionId, Spending};

/// A change of a job.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
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
    GoOn { epoch: u32 },
    /// The job has ended and its artifact is published.
    Finish(Box<Finish>),
    /// The user cancels a job without a worker. A claimed job must be cancelled through its worker.
    Cancel,
    /// The user adds a message. Requeues a job that has ended.
    Say,
}

/// The result that a worker reports.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finish {
    pub(crate) epoch: u32,
    pub(crate) ran_millis: u64,
    pub(crate) end: End,
    pub(crate) answer: Option<String>,
    pub(crate) artifact: Option<Artifact>,
    pub(crate) spending: Spending,
}

/// How a job ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Failed(Failure),
}

impl End {
    pub(crate) fn failed(cause: Cause, message: impl Into<String>) -> Self {
        Self::Failed(Failure {
            cause,
            message: message.into(),
        })
    }
}

impl From<End> for State {
    fn from(end: End) -> Self {
        match end {
            End::Complete => Self::Complete,
            End::Failed(failure) => Self::Failed { failure },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("the job has ended")]
    Ended,
    #[error("another claim of the job has begun")]
    Fenced,
    #[error("nobody works on the job")]
    NotClaimed,
    #[error("somebody works on the job")]
    Claimed,
}

/// Server crashes after which a job is not requeued again.
pub(crate) const MOST_CRASHES: u32 = 100;

pub(crate) fn transition(job: &Job, change: Change, now: Timestamp) -> Result<Job, Refused> {
    let mut next = job.clone();
    match change {
        Change::Claim { session } => {
            require_queued(job)?;
            next.epoch += 1;
            next.started.get_or_insert(now);
            next.session.get_or_insert(session);
            next.state = State::Running;
        }
        Change::Crash => {
            require_claimed(job)?;
            next.crashes += 1;
            match next.crashes {
                MOST_CRASHES.. => {
                    let message = format!("the server died {} times under it", next.crashes);
                    end(&mut next, End::failed(Cause::Crashes, message), now);
                }
                _ => next.state = State::Queued,
            }
        }
        Change::Park {
            epoch,
            ran_millis,
            parked,
        } => {
            require_claim(job, epoch)?;
            count(&mut next, ran_millis);
            next.parked = parked;
            next.state = State::Queued;
        }
        Change::Wait { epoch, ran_millis } => {
            require_claim(job, epoch)?;
            count(&mut next, ran_millis);
            next.parked = None;
            next.state = State::Waiting;
        }
        Change::GoOn { epoch } => {
            require_claim(job, epoch)?;
            next.state = State::Running;
        }
        Change::Finish(finish) => {
            require_claim(job, finish.epoch)?;
            count(&mut next, finish.ran_millis);
            next.answer = finish.answer;
            next.artifact = finish.artifact;
            next.spending = finish.spending;
            end(&mut next, finish.end, now);
        }
        Change::Cancel => {
            require_queued(job)?;
            end(&mut next, cancelled(), now);
        }
        Change::Say => {
            next.messages += 1;
            // A new message ends the wait for an outage.
            if let Some(parked) = &mut next.parked {
                parked.not_before = now;
            }
            if job.state.has_ended() {
                next.state = State::Queued;
                next.ended = None;
                next.crashes = 0;
            }
        }
    }
    Ok(next)
}

/// The address of the published zip of a complete job.
pub(crate) fn result_url(job: &Job) -> Option<String> {
    let is_complete = job.state == State::Complete && job.artifact.is_some();
    is_complete.then(|| format!("/jobs/{}/output.zip", job.id))
}

/// The end of a cancelled job.
pub(crate) fn cancelled() -> End {
    End::failed(Cause::Cancelled, "somebody cancelled it")
}

fn end(job: &mut Job, how: End, now: Timestamp) {
    job.state = how.into();
    job.parked = None;
    job.ended = Some(now);
}

/// Run time never decreases.
fn count(job: &mut Job, ran_millis: u64) {
    job.ran_millis = job.ran_millis.max(ran_millis);
}

fn require_queued(job: &Job) -> Result<(), Refused> {
    match job.state {
        State::Queued => Ok(()),
        State::Running | State::Waiting => Err(Refused::Claimed),
        State::Complete | State::Failed { .. } => Err(Refused::Ended),
    }
}

fn require_claimed(job: &Job) -> Result<(), Refused> {
    match job.state {
        State::Running | State::Waiting => Ok(()),
        State::Queued => Err(Refused::NotClaimed),
        State::Complete | State::Failed { .. } => Err(Refused::Ended),
    }
}

fn require_claim(job: &Job, epoch: u32) -> Result<(), Refused> {
    if job.epoch == epoch {
        require_claimed(job)
    } else {
        Err(Refused::Fenced)
    }
}

#[cfg(test)]
mod tests;
