//! The progress of a job as a pure fold over its session's events, stored and live alike.

use protocol::{Block, Event, EventKind, Outcome, Spending};

/// Maximum bytes of a job's answer; longer replies are cut.
const MAX_ANSWER_BYTES: usize = 256 << 10;

#[derive(Debug, Clone)]
pub(crate) struct SessionProgress {
    /// Turns that were started; equals the number of messages that the agent has received.
    pub(crate) turns: u32,
    /// The outcome of the last turn; `None` if no turn was started or one is in progress.
    pub(crate) outcome: Option<Outcome>,
    /// Replies of the model.
    pub(crate) replies: usize,
    /// The text of the last reply that has text.
    pub(crate) answer: Option<String>,
    pub(crate) spending: Spending,
    /// Sequence number of the last persistent event.
    pub(crate) seq: u64,
}

impl SessionProgress {
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
        // The total over all claims; events contain only the spending of their own claim.
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

    /// The reason for the end of the last turn, if it was a transient failure of the provider.
    pub(crate) fn transient_failure(&self) -> Option<&str> {
        match &self.outcome {
            Some(Outcome::Provider {
                reason,
                transient: true,
            }) => Some(reason),
            _ => None,
        }
    }

    /// Whether a turn is in progress.
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
        1..=MAX_ANSWER_BYTES => Some(text.to_owned()),
        _ => {
            let end = text.floor_char_boundary(MAX_ANSWER_BYTES);
            Some(format!("{}…", &text[..end]))
        }
    }
}
