//! The current status: model, walls, cost, activity. A fold over events. Pure: the app keeps the
//! time up to date.
//!
//! Never decides anything; [`status_bar()`] chooses how much of it fits on a line. Entry type: [`UiStatus`].

mod activity;
mod bar;
mod fold;
mod ledger;
#[cfg(test)]
mod tests;

use std::time::Duration;

use protocol::{SandboxInfo, SessionId, Spending};

pub(crate) use self::activity::{TurnActivity, TurnPhase};
pub(crate) use self::bar::{StatusPart, status_bar};
pub(crate) use self::ledger::{UsageLedger, UsageTotal};
use crate::port::{OpenedSession, SessionOrigin};

/// Time between two frames of an animation.
pub(crate) const ANIMATION_INTERVAL: Duration = Duration::from_millis(125);

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UiStatus {
    /// Time since the start of the UI; the app sets it with every input.
    pub(crate) now: Duration,
    pub(crate) model: String,
    /// Context window of the model in tokens, if known.
    pub(crate) window: Option<u64>,
    /// The folder mounted as `/workspace`.
    pub(crate) workspace: String,
    pub(crate) session: Option<SessionId>,
    /// The job that is followed, and its server.
    pub(crate) job: Option<(String, String)>,
    /// What protects the sandbox; absent until it has started.
    pub(crate) sandbox: Option<SandboxInfo>,
    /// Whether the user is asked about hosts that cannot be reached.
    pub(crate) asks: bool,
    /// The agent has ended, and its sandbox with it.
    pub(crate) is_over: bool,
    /// A turn is running.
    pub(crate) is_busy: bool,
    pub(crate) activity: TurnActivity,
    pub(crate) spending: Spending,
    /// Usage per model.
    pub(crate) ledger: UsageLedger,
    /// Tokens of the last request and its reply.
    pub(crate) context: u64,
    /// Number of background commands.
    pub(crate) background: usize,
}

impl UiStatus {
    /// The status of a session or job that is opened, from its events so far.
    pub(crate) fn open(now: Duration, opened: &OpenedSession) -> Self {
        let mut status = Self {
            now,
            ..Self::default()
        };
        for event in &opened.history {
            status.apply(event);
        }
        match &opened.origin {
            SessionOrigin::Here { session } => {
                status.session = session.clone().or(status.session);
                // The sandbox of that time and its running work are gone.
                status.sandbox = None;
                status.is_busy = false;
                status.activity = TurnActivity::default();
                status.background = 0;
            }
            SessionOrigin::Job { job, server } => {
                status.job = Some((job.to_string(), fold::line(server)))
            }
        }
        if !opened.model.is_empty() {
            status.model = fold::line(&opened.model);
        }
        status.workspace = fold::line(&opened.workspace);
        status
    }

    /// The agent ended unexpectedly.
    pub(crate) fn mark_agent_ended(&mut self) {
        self.is_over = true;
        self.is_busy = false;
        self.sandbox = None;
        self.activity = TurnActivity::default();
        self.background = 0;
    }

    /// Used part of the context window, in percent.
    pub(crate) fn context_used(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.context.saturating_mul(100) / window)
    }

    /// The usage so far: as reported by the agent, or the sum over the replies where that is
    /// larger.
    pub(crate) fn total(&self) -> UsageTotal {
        let all = self.ledger.all();
        if self.spending.usage.total() >= all.usage.total() {
            UsageTotal {
                usage: self.spending.usage,
                cost: self.spending.cost,
                requests: self.spending.requests,
            }
        } else {
            all
        }
    }

    /// Time since the start of the turn.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        self.is_busy.then(|| self.activity.elapsed(self.now))
    }
}
