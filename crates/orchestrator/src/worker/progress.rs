//! What a session's events say about its job. A pure fold: the same over stored and live ones.

use protocol::{Block, Event, EventKind, Outcome, Spending};

/// Bytes of a job's answer; a reply can be longer.
const LONGEST_ANSWER: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) struct Progress {
    /// Turns that were begun: as many messages have been heard.
    pub(crate) turns: u32,
    /// How the last turn ended; nothing if none was begun or it is under way.
    pub(crate) outcome: Option<Outcome>,
    /// Replies of the model.
    pub(crate) replies: usize,
    /// The text of the last reply that had any.
    pub(crate) answer: Option<String>,
    pub(crate) spending: Spending,
    /// The last lasting event.
    pub(crate) seq: u64,
}

impl Progress {
    pub(crate) fn of(history: &[Event]) -> Self {
        let mut progress = Self {
            turns: 0,
            outcome: None,
            replies: 0,
            answer: None,
            spending: Spending::none(),
            seq: 0,
        };
        for event in history {
            progress.apply(event);
        }
        // Of all claims together; an event says so only for the claim that it was made under.
        progress.spending = agent::spent(history);
        progress
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        if let Some(seq) = event.seq {
            self.seq = seq;
        }
        match &event.kind {
            EventKind::TurnStarted { turn, .. } => {
                self.turns = *turn;
                self.outcome = None;
            }
            EventKind::TurnContinued { .. } => self.outcome = None,
            EventKind::Replied { content, .. } => {
                self.replies += 1;
                if let Some(text) = text_of(content) {
                    self.answer = Some(text);
                }
            }
            EventKind::Spent { spending } => self.spending = spending.clone(),
            EventKind::TurnEnded {
                outcome, spending, ..
            } => {
                self.outcome = Some(outcome.clone());
                self.spending = spending.clone();
            }
            _ => {}
        }
    }

    /// Why the last turn ended, if the model's provider failed in a way that may pass.
    pub(crate) fn transient_failure(&self) -> Option<&str> {
        match &self.outcome {
            Some(Outcome::Provider {
                reason,
                transient: true,
            }) => Some(reason),
            _ => None,
        }
    }

    /// Whether a turn was begun and is not over.
    pub(crate) fn is_in_turn(&self) -> bool {
        self.turns > 0 && self.outcome.is_none()
    }
}

fn text_of(content: &[Block]) -> Option<String> {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    let text = text.trim();
    match text.len() {
        0 => None,
        1..=LONGEST_ANSWER => Some(text.to_owned()),
        _ => {
            let end = text.floor_char_boundary(LONGEST_ANSWER);
            Some(format!("{}…", &text[..end]))
        }
    }
}
