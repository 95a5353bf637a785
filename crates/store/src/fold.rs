//! Folds a session's events into its summary. Pure: the same events give the same summary, whether they are
//! folded one by one as they happen or all at once later.

use jiff::Timestamp;
use protocol::{Block, EventKind, Outcome, SessionId, Usage};

use crate::sessions::SessionSummary;

/// In characters. A prompt may be one line of a megabyte.
const MAX_TITLE_CHARS: usize = 200;

/// A summary that is updated by each event.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SummaryFold {
    summary: SessionSummary,
    /// Turns that are not undone, with their outcomes.
    turns: Vec<FoldedTurn>,
    /// The turns of each undo that can be redone, the latest undo last.
    undone: Vec<Vec<FoldedTurn>>,
}

#[derive(Debug, Clone, PartialEq)]
struct FoldedTurn {
    number: u32,
    outcome: Option<String>,
}

impl SummaryFold {
    pub(crate) fn new(session: SessionId) -> Self {
        Self {
            summary: SessionSummary {
                session,
                begun: Timestamp::UNIX_EPOCH,
                changed: Timestamp::UNIX_EPOCH,
                title: String::new(),
                workspace: String::new(),
                model: String::new(),
                turns: 0,
                usage: Usage::default(),
                cost: Some(0.0),
                outcome: None,
                events: 0,
            },
            turns: Vec::new(),
            undone: Vec::new(),
        }
    }

    pub(crate) fn of<'a>(
        session: SessionId,
        events: impl IntoIterator<Item = &'a protocol::Event>,
    ) -> Self {
        let mut fold = Self::new(session);
        for event in events {
            fold.apply(event.time, &event.kind);
        }
        fold
    }

    pub(crate) fn summary(&self) -> &SessionSummary {
        &self.summary
    }

    /// The sequence number of the next event.
    pub(crate) fn next_seq(&self) -> u64 {
        self.summary.events + 1
    }

    pub(crate) fn apply(&mut self, time: Timestamp, kind: &EventKind) {
        if self.summary.events == 0 {
            self.summary.begun = time;
            self.summary.changed = time;
        }
        self.summary.events += 1;
        // The clock may be set back, and a fork starts later than the events it copies.
        self.summary.changed = self.summary.changed.max(time);
        match kind {
            EventKind::SessionStarted {
                workspace, model, ..
            } => {
                self.summary.workspace.clone_from(workspace);
                self.summary.model.clone_from(model);
            }
            EventKind::TurnStarted { turn, prompt } => self.start_turn(*turn, prompt),
            EventKind::TurnContinued { turn } => {
                self.undone.clear();
                self.set_outcome(*turn, None);
            }
            EventKind::TurnEnded { turn, outcome, .. } => {
                self.set_outcome(*turn, Some(outcome_name(outcome)));
            }
            EventKind::Replied { usage, cost, .. } => self.add_spending(*usage, *cost),
            EventKind::Compacted { usage, cost, .. } => {
                self.undone.clear();
                self.add_spending(*usage, *cost);
            }
            EventKind::Undone { turn, .. } => self.undo_from(*turn),
            EventKind::Redone { .. } => self.turns.extend(self.undone.pop().unwrap_or_default()),
            _ => {}
        }
        self.summary.turns = u32::try_from(self.turns.len()).unwrap_or(u32::MAX);
        self.summary.outcome = self.turns.last().and_then(|turn| turn.outcome.clone());
    }

    fn start_turn(&mut self, number: u32, prompt: &[Block]) {
        self.undone.clear();
        // Also if all earlier turns were undone: then their title no longer applies.
        if self.turns.is_empty() {
            self.summary.title = title_of(prompt);
        }
        self.turns.push(FoldedTurn {
            number,
            outcome: None,
        });
    }

    fn undo_from(&mut self, turn: u32) {
        let mut undone = std::mem::take(&mut self.turns);
        self.turns = undone.extract_if(.., |known| known.number < turn).collect();
        // As in the agent: an undo that undid nothing cannot be redone.
        if !undone.is_empty() {
            self.undone.push(undone);
        }
    }

    fn set_outcome(&mut self, number: u32, outcome: Option<String>) {
        let turn = self.turns.iter_mut().rfind(|turn| turn.number == number);
        if let Some(turn) = turn {
            turn.outcome = outcome;
        }
    }

    /// Spending on turns that are undone later still counts.
    fn add_spending(&mut self, usage: Usage, cost: Option<f64>) {
        let sum = &mut self.summary.usage;
        for (sum, more) in [
            (&mut sum.input_tokens, usage.input_tokens),
            (
                &mut sum.cache_creation_input_tokens,
                usage.cache_creation_input_tokens,
            ),
            (
                &mut sum.cache_read_input_tokens,
                usage.cache_read_input_tokens,
            ),
            (&mut sum.output_tokens, usage.output_tokens),
        ] {
            // The provider's numbers are untrusted.
            *sum = sum.saturating_add(more);
        }
        self.summary.cost = self.summary.cost.zip(cost).map(|(sum, more)| sum + more);
    }
}

/// The text of an event that goes into the search index.
pub(crate) fn searchable_text(kind: &EventKind) -> Option<String> {
    let (EventKind::TurnStarted {
        prompt: content, ..
    }
    | EventKind::Replied { content, .. }) = kind
    else {
        return None;
    };
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    let text = texts.join("\n");
    (!text.trim().is_empty()).then_some(text)
}

fn title_of(prompt: &[Block]) -> String {
    let lines = prompt
        .iter()
        .filter_map(Block::as_text)
        .flat_map(str::lines);
    let line = lines.map(str::trim).find(|line| !line.is_empty());
    line.unwrap_or_default()
        .chars()
        .take(MAX_TITLE_CHARS)
        .collect()
}

/// The outcome as its JSON form names it.
fn outcome_name(outcome: &Outcome) -> String {
    let json = serde_json::to_value(outcome).unwrap_or_default();
    json["kind"].as_str().unwrap_or("unknown").to_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::Spending;

    use super::*;

    fn prompt(turn: u32, text: &str) -> EventKind {
        EventKind::TurnStarted {
            turn,
            prompt: vec![Block::text(text)],
        }
    }

    fn end(turn: u32, outcome: Outcome) -> EventKind {
        EventKind::TurnEnded {
            turn,
            outcome,
            spending: Spending::default(),
        }
    }

    fn undo(turn: u32) -> EventKind {
        serde_json::from_value(serde_json::json!({"type": "undone", "turn": turn,
            "checkpoint": {"number": 1, "files": 0, "bytes": 0},
            "restored": 0, "removed": 0}))
        .unwrap()
    }

    fn redo(turn: u32) -> EventKind {
        serde_json::from_value(serde_json::json!({"type": "redone", "turn": turn,
            "checkpoint": {"number": 2, "files": 0, "bytes": 0},
            "restored": 0, "removed": 0}))
        .unwrap()
    }

    fn compacted(cost: Option<f64>) -> EventKind {
        EventKind::Compacted {
            summary: "all is well".into(),
            usage: Usage {
                input_tokens: 5,
                ..Usage::default()
            },
            cost,
            model: "m".into(),
        }
    }

    #[track_caller]
    fn check(events: &[EventKind], title: &str, turns: u32, outcome: Option<&str>) {
        let mut fold = SummaryFold::new("20260131-174502-k3fd".parse().unwrap());
        for kind in events {
            fold.apply(Timestamp::UNIX_EPOCH, kind);
        }
        let summary = fold.summary();
        assert_eq!(summary.title, title);
        assert_eq!(summary.turns, turns);
        assert_eq!(summary.outcome.as_deref(), outcome);
        assert_eq!(summary.events, events.len() as u64);
    }

    #[test]
    fn the_title_is_the_first_line_with_words() {
        check(&[prompt(1, "\n  fix it \nplease")], "fix it", 1, None);
        check(&[prompt(1, " \n ")], "", 1, None);
        check(&[prompt(1, &"é".repeat(999))], &"é".repeat(200), 1, None);
        check(&[prompt(1, "one"), prompt(2, "two")], "one", 2, None);
    }

    #[test]
    fn the_outcome_is_that_of_the_last_turn_that_stands() {
        let failed = || Outcome::Failed { reason: "x".into() };
        check(
            &[prompt(1, "a"), end(1, Outcome::Done)],
            "a",
            1,
            Some("done"),
        );
        check(&[prompt(1, "a"), end(1, failed())], "a", 1, Some("failed"));
        let continued = EventKind::TurnContinued { turn: 1 };
        check(&[prompt(1, "a"), end(1, failed()), continued], "a", 1, None);
        let two = [prompt(1, "a"), end(1, Outcome::Done), prompt(2, "b")];
        check(&two, "a", 2, None);
        let undone = [&two[..], &[end(2, failed()), undo(2)]].concat();
        check(&undone, "a", 1, Some("done"));
    }

    #[test]
    fn turns_that_were_taken_back_do_not_count() {
        // Numbers are not reused after an undo.
        let events = [prompt(1, "a"), prompt(2, "b"), undo(2), prompt(3, "c")];
        check(&events, "a", 2, None);
        check(&[&events[..], &[undo(3)]].concat(), "a", 1, None);
        check(&[&events[..], &[undo(1)]].concat(), "a", 0, None);
        check(
            &[&events[..], &[undo(1), prompt(4, "d")]].concat(),
            "d",
            1,
            None,
        );
    }

    #[test]
    fn turns_count_again_when_their_undo_is_taken_back() {
        let two = [
            prompt(1, "a"),
            end(1, Outcome::Done),
            prompt(2, "b"),
            end(2, Outcome::Interrupted),
        ];
        let then = |more: &[EventKind]| [&two[..], more].concat();
        check(&then(&[undo(2), redo(2)]), "a", 2, Some("interrupted"));
        let both = [undo(2), undo(1)];
        check(
            &then(&[&both[..], &[redo(1)]].concat()),
            "a",
            1,
            Some("done"),
        );
        let all = [&both[..], &[redo(1), redo(2)]].concat();
        check(&then(&all), "a", 2, Some("interrupted"));
        check(
            &then(&[&all[..], &[undo(2)]].concat()),
            "a",
            1,
            Some("done"),
        );
        // One undo of both turns.
        check(&then(&[undo(1), redo(1)]), "a", 2, Some("interrupted"));
        // There is nothing to redo any more, or there never was.
        check(&then(&[redo(1)]), "a", 2, Some("interrupted"));
        check(&then(&[undo(2), prompt(3, "c"), redo(2)]), "a", 2, None);
        let lost = [undo(2), compacted(None), redo(2)];
        check(&then(&lost), "a", 1, Some("done"));
        check(&then(&[undo(9), redo(9)]), "a", 2, Some("interrupted"));
    }

    #[test]
    fn a_summary_is_paid_for() {
        let mut fold = SummaryFold::new("20260131-174502-k3fd".parse().unwrap());
        fold.apply(Timestamp::UNIX_EPOCH, &prompt(1, "a"));
        fold.apply(Timestamp::UNIX_EPOCH, &compacted(Some(0.25)));
        assert_eq!(fold.summary().cost, Some(0.25));
        assert_eq!(fold.summary().usage.input_tokens, 5);
        assert_eq!(fold.summary().turns, 1);
    }

    #[test]
    fn a_cost_that_is_unknown_once_stays_unknown() {
        let reply = |cost| EventKind::Replied {
            turn: 1,
            content: vec![],
            stop: protocol::Stop::EndTurn,
            broken_calls: Default::default(),
            usage: Usage {
                input_tokens: u64::MAX,
                output_tokens: 2,
                ..Usage::default()
            },
            cost,
            model: "m".into(),
        };
        let mut fold = SummaryFold::new("20260131-174502-k3fd".parse().unwrap());
        fold.apply(Timestamp::UNIX_EPOCH, &reply(Some(0.5)));
        assert_eq!(fold.summary().cost, Some(0.5));
        fold.apply(Timestamp::UNIX_EPOCH, &undo(1));
        assert_eq!(fold.summary().cost, Some(0.5));
        fold.apply(Timestamp::UNIX_EPOCH, &reply(None));
        fold.apply(Timestamp::UNIX_EPOCH, &reply(Some(0.5)));
        assert_eq!(fold.summary().cost, None);
        assert_eq!(fold.summary().usage.input_tokens, u64::MAX);
        assert_eq!(fold.summary().usage.output_tokens, 6);
    }
}
