//! What is true at this moment: the model, the walls, what it costs, what is being done. A fold
//! over events. Pure: the time is a value that the app keeps up to date.
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

/// How long a picture stands while something moves.
pub(crate) const FRAME: Duration = Duration::from_millis(125);

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Status {
    /// Since the start of the UI; the app sets it with every input.
    pub(crate) now: Duration,
    pub(crate) model: String,
    /// Tokens that the model can take, where known.
    pub(crate) window: Option<u64>,
    /// The folder that is `/workspace`.
    pub(crate) workspace: String,
    pub(crate) session: Option<SessionId>,
    /// The job that is followed, with the server that has it.
    pub(crate) job: Option<(String, String)>,
    /// What protects the machine; absent until the sandbox stands.
    pub(crate) walls: Option<Walls>,
    /// The agent has ended, and its sandbox with it.
    pub(crate) is_over: bool,
    /// A turn is under way.
    pub(crate) is_busy: bool,
    pub(crate) activity: Activity,
    pub(crate) spending: Spending,
    /// What was used, model by model.
    pub(crate) ledger: Ledger,
    /// Tokens of the last request and its reply.
    pub(crate) context: u64,
    /// Commands that go on in the background.
    pub(crate) background: usize,
}

/// What protects the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Walls {
    pub(crate) backend: String,
    /// What a way out has to break.
    pub(crate) strength: String,
    /// Why these and no others.
    pub(crate) reason: String,
    pub(crate) names: Vec<String>,
    /// Hosts that can be reached.
    pub(crate) network: Vec<String>,
    /// Other hosts are asked about.
    pub(crate) asks: bool,
}

impl Status {
    /// Another session, or job, with what happened in it so far.
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
                // What protected the machine then, and what was under way, are gone.
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

    /// The agent has ended before its time.
    pub(crate) fn lose(&mut self) {
        self.is_over = true;
        self.is_busy = false;
        self.walls = None;
        self.activity = Activity::default();
        self.background = 0;
    }

    /// Part of the window that is full, in percent.
    pub(crate) fn context_used(&self) -> Option<u64> {
        let window = self.window.filter(|window| *window > 0)?;
        Some(self.context.saturating_mul(100) / window)
    }

    /// What was spent: as the agent says, or as its replies add up where it has said nothing yet.
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

    /// Since the turn began.
    pub(crate) fn elapsed(&self) -> Option<Duration> {
        self.is_busy.then(|| self.activity.elapsed(self.now))
    }
}

impl Walls {
    /// Nothing stands between the model's commands and the machine.
    pub(crate) fn is_none(&self) -> bool {
        self.backend == "none"
    }
}
