//! Decides what follows the end of a turn. Pure.

use protocol::job::Cause;
use protocol::{BudgetKind, Outcome};

use crate::job::{JobEnd, cancelled};

/// Why a job is stopped during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    Cancelled,
    Deadline,
    Stuck,
    /// The server shuts down: a later worker continues.
    Parked,
}

/// What to do after a turn when there is no further message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AfterTurn {
    /// End the job.
    End(JobEnd),
    /// Wait for a message; if none comes, end the job.
    Wait(JobEnd),
}

pub(crate) fn next(outcome: &Outcome, is_interactive: bool) -> AfterTurn {
    let end = end_of(outcome);
    match outcome {
        Outcome::Interrupted => AfterTurn::Wait(end),
        _ if is_interactive => AfterTurn::Wait(end),
        _ => AfterTurn::End(end),
    }
}

pub(crate) fn end_of(outcome: &Outcome) -> JobEnd {
    match outcome {
        Outcome::Done => JobEnd::Complete,
        Outcome::Failed { reason } => JobEnd::failed(Cause::Agent, reason),
        Outcome::Provider { reason, .. } => JobEnd::failed(Cause::Provider, reason),
        Outcome::Budget {
            budget: BudgetKind::Time,
            reason,
        } => JobEnd::failed(Cause::Deadline, reason),
        Outcome::Budget {
            budget: BudgetKind::Cost | BudgetKind::Tokens | BudgetKind::Turns,
            reason,
        } => JobEnd::failed(Cause::Budget, reason),
        Outcome::Interrupted => JobEnd::failed(
            Cause::Interrupted,
            "it was interrupted, and no message followed",
        ),
    }
}

/// The end of a stopped job; `None` if it is only parked.
pub(crate) fn end_of_stop(stop: StopReason, timeout: std::time::Duration) -> Option<JobEnd> {
    match stop {
        StopReason::Cancelled => Some(cancelled()),
        StopReason::Deadline => Some(JobEnd::failed(
            Cause::Deadline,
            format!("it ran for longer than {} seconds", timeout.as_secs()),
        )),
        StopReason::Stuck => Some(JobEnd::failed(
            Cause::Stuck,
            "there was no sign of life from it for too long",
        )),
        StopReason::Parked => None,
    }
}
