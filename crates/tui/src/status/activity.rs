//! What the agent is doing now, in a few words.

use std::time::Duration;

use jiff::Timestamp;
use protocol::{CallId, Usage};

use crate::amount;
use crate::text::clean;

/// The running turn.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct TurnActivity {
    pub(crate) phase: TurnPhase,
    /// Running calls with their summaries.
    pub(crate) running: Vec<(CallId, String)>,
    /// Tokens used in this turn.
    pub(crate) usage: Usage,
    /// Start of the turn by the clock of the UI.
    since: Duration,
    /// Start of the turn and time of its last event, by the clock of the agent.
    start_time: Option<Timestamp>,
    last: Option<Timestamp>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum TurnPhase {
    /// A request has been sent or is about to be.
    #[default]
    Waiting,
    Thinking,
    Writing,
    /// The model writes the input of a call.
    Calling(String),
    Retrying {
        until: Duration,
        reason: String,
    },
}

impl TurnActivity {
    pub(crate) fn begin(now: Duration, time: Timestamp) -> Self {
        Self {
            since: now,
            start_time: Some(time),
            last: Some(time),
            ..Self::default()
        }
    }

    /// Notes an event of the turn.
    pub(crate) fn touch(&mut self, now: Duration, time: Timestamp) {
        // Events that arrive in the same instant are history, although they happened one after the
        // other.
        if now == self.since {
            self.last = Some(time);
        }
    }

    pub(crate) fn elapsed(&self, now: Duration) -> Duration {
        let before = self.start_time.zip(self.last);
        let before = before.map(|(start_time, last)| last.duration_since(start_time));
        let before = before.and_then(|before| Duration::try_from(before).ok());
        now.saturating_sub(self.since) + before.unwrap_or_default()
    }

    pub(crate) fn start_call(&mut self, call: &CallId, summary: &str) {
        self.end_call(call);
        let line = clean(summary).lines().next().unwrap_or_default().to_owned();
        self.running.push((call.clone(), line));
    }

    pub(crate) fn end_call(&mut self, call: &CallId) {
        self.running.retain(|(other, _)| other != call);
    }

    /// The activity as one line of any length.
    pub(crate) fn text(&self, now: Duration) -> String {
        match (self.running.as_slice(), &self.phase) {
            ([(_, summary)], _) if summary.starts_with('$') => format!("running {summary}"),
            ([(_, summary)], _) => summary.clone(),
            ([_, _, ..], _) => {
                if self.running.iter().all(|(_, line)| line.starts_with('$')) {
                    format!("running {} commands", self.running.len())
                } else {
                    format!("{} things at once", self.running.len())
                }
            }
            (_, TurnPhase::Waiting) => "waiting for the model".to_owned(),
            (_, TurnPhase::Thinking) => "thinking".to_owned(),
            (_, TurnPhase::Writing) => "writing".to_owned(),
            (_, TurnPhase::Calling(name)) => format!("preparing {name}"),
            (_, TurnPhase::Retrying { until, reason }) => match until.saturating_sub(now) {
                Duration::ZERO => format!("trying again: {reason}"),
                left => {
                    // Round up to whole seconds.
                    let left = amount::time(left + Duration::from_millis(999));
                    format!("trying again in {left}: {reason}")
                }
            },
        }
    }
}
