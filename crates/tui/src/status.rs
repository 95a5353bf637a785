//! The current status: model, walls, cost, activity. A fold over events. Pure: the app keeps the
//! time up to date.
//!
//! Never decides anything; [`bar()`] chooses how much of it fits on a line. Entry type: [`Status`].

mod activity;
mod bar;
mod fold;
mod ledger;
#[cfg(test)]
mod tests;

use std::time::Duration;

use protocol::{SessionId, Spending};

pub(crate) use self::activity::{Activity, Phase};
pub(crate) use self::bar::{Part, bar};
pub(crate) use self::ledger::{Bill, Ledger};
use crate::port::{Opened, Origin};

/// Time between two frames of an animation.
pub(crate) const FRAME: Duration = Duration::from_millis(125);

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Status {
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
    /// The walls of the sandbox; absent until it has started.
    pub(crate) walls: Option<Walls>,
    /// The agent has ended, and its sandbox with it.
    pub(crate) is_over: bool,
    /// A turn is running.
    pub(crate) is_busy: bool,
    pub(crate) activity: Activity,
    pub(crate) spending: Spending,
    /// Usage per model.
    pub(crate) ledger: Ledger,
    /// Tokens of the last request and its reply.
    pub(crate) context: u64,
    /// Number of background commands.
    pub(crate) background: usize,
}

/// The walls of the sandbox.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Walls {
    pub(crate) backend: String,
    /// Kind of boundary that an escape has to break.
    pub(crate) strength: String,
    /// Why this backend was chosen.
    pub(crate) reason: String,
    pub(crate) names: Vec<String>,
    /// Reachable hosts.
    pub(crate) network: Vec<String>,
    /// Whether the user is asked about other hosts.
    pub(crate) asks: bool,
}

impl Status {
    /// The status of a session or job that is opened, from its events so far.
    pub(crate) fn open(now: Duration, opened: &Opened) -> Self {
        let mut status = Self {
            now,
            ..Self::default()
        };
        for event in &opened.history {
            status.apply(event);
        }
        match &opened.origin {
            Origin::Here { session } => {
                status.session = session.clone().or(status.session);
                // The sandbox of that time and its running work are gone.
                status.walls = None;
                status.is_busy = false;
                status.activity = Activity::default();
                status.background = 0;
            }
            Origin::Job { job, server } => status.job = Some((job.to_string(), fold::line(server))),
        }
        if !opened.model.is_empty() {
            status.model = fold::line(&opened.model);
        }
        status.workspace = fold::line(&opened.workspace);
        status
    }

    /// The agent ended unexpectedly.
    pub(crate) fn lose(&mut self) {
        self.is_over = true;
        self.is_busy = false;
        self.walls = None;
        self.activity = Activity::default();
        self.background = 0;
    }

    /// Used part of the context window, in percent.
    pub(crate) fn context_used(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.context.saturating_mul(100) / window)
    }

    /// The usage so far: as reported by the agent, or the sum over the replies where that is
    /// larger.
    pub(crate) fn bill(&self) -> Bill {
        let all = self.ledger.all();
        if self.spending.usage.total() >= all.usage.total() {
            Bill {
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

impl Walls {
    /// Whether commands run without a sandbox.
    pub(crate) fn is_none(&self) -> bool {
        self.backend == "none"
    }
}
