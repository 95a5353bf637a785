//! Decides what follows the end of a turn. Pure.

use protocol::job::Cause;
use protocol::{BudgetKind, Outcome};

use crate::job::{End, cancelled};

/// Why a job is stopped during a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    Cancelled,
    Deadline,
    Stuck,
    /// The server shuts down: a later worker continues.
    Parked,
}

/// What to do after a turn when there is no further message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Next {
    /// End the job.
    End(End),
    /// Wait for a message; if none comes, end the job.
    Wait(End),
}

pub(crate) fn next(outcome: &Outcome, is_interactive: bool) -> Next {
    let end = end_of(outcome);
    match outcome {
        Outcome::Interrupted => Next::Wait(end),
        _ if is_interactive => Next::Wait(end),
        _ => Next::End(end),
    }
}

pub(crate) fn end_of(outcome: &Outcome) -> End {
    match outcome {
        Outcome::Done => End::Complete,
        Outcome::Failed { reason } => End::failed(Cause::Agent, reason),
        Outcome::Provider { reason, .. } => End::failed(Cause::Provider, reason),
        Outcome::Budget {
            budget: BudgetKind::Time,
            reason,
        } => End::failed(Cause::Deadline, reason),
        Outcome::Budget {
            budget: BudgetKind::Cost | BudgetKind::Tokens | BudgetKind::Turns,
            reason,
        } => End::failed(Cause::Budget, reason),
        Outcome::Interrupted => End::failed(
            Cause::Interrupted,
            "somebody interrupted it and said nothing more",
        ),
    }
}

/// The end of a stopped job; `None` if it is only parked.
pub(crate) fn end_of_stop(stop: Stop, timeout: std::time::Duration) -> Option<End> {
    match stop {
        Stop::Cancelled => Some(cancelled()),
        Stop::Deadline => Some(End::failed(
            Cause::Deadline,
            format!("it ran for longer than {} seconds", timeout.as_secs()),
        )),
        Stop::Stuck => Some(End::failed(
            Cause::Stuck,
            "there was no sign of life from it for too long",
        )),
        Stop::Parked => None,
    }
}
