//! The page as the user sees it: events in, lines out.

#![allow(clippy::unwrap_used)]

mod browsing;
mod calls;
mod history;
mod notes;
mod property;
mod replies;
mod sanitizing;
mod scrolling;
mod search;

use protocol::{Block, CallId, EventKind, Outcome, Spending};
use serde_json::{Value, json};

use super::Transcript;
use crate::samples::{self, event, replied, usage};
use crate::theme::{ColourScheme, Theme};

/// A transcript after some events.
pub(super) fn transcript_of(events: &[EventKind]) -> Transcript {
    let mut transcript = Transcript::default();
    let mut summarizer = samples::Summarizer::default();
    for kind in events {
        transcript.apply(&event(summarizer.add_summary(kind.clone())));
    }
    transcript
}

/// The visible lines.
pub(super) fn visible_lines(transcript: &mut Transcript, width: u16, height: u16) -> Vec<String> {
    transcript.arrange(width, height, &Theme::new(ColourScheme::Plain));
    transcript
        .visible()
        .iter()
        .map(|line| line.to_string().trim_end().to_owned())
        .collect()
}

/// The whole page, if it is not long.
pub(super) fn page(transcript: &mut Transcript) -> String {
    visible_lines(transcript, 66, 200).join("\n")
}

pub(super) fn reply(text: &str) -> EventKind {
    reply_of(vec![Block::text(text)])
}

pub(super) fn reply_of(content: Vec<Block>) -> EventKind {
    replied(content, usage(1, 1), None)
}

pub(super) fn text(text: &str) -> EventKind {
    EventKind::TextDelta { text: text.into() }
}

pub(super) fn thinking(text: &str) -> EventKind {
    EventKind::ThinkingDelta { text: text.into() }
}

pub(super) fn call_reply(id: &str, name: &str, input: Value) -> EventKind {
    reply_of(vec![samples::call(id, name, input)])
}

pub(super) fn bash(id: &str, command: &str) -> EventKind {
    call_reply(id, "bash", json!({ "command": command }))
}

pub(super) fn started(id: &str, command: &str) -> EventKind {
    samples::tool_started(id, "bash", json!({ "command": command }))
}

pub(super) fn printed(id: &str, text: &str) -> EventKind {
    EventKind::ToolOutput {
        call: CallId::from(id),
        text: text.into(),
        is_error: false,
    }
}

pub(super) fn ended(id: &str, name: &str, output: &str, is_error: bool) -> EventKind {
    EventKind::ToolEnded {
        call: CallId::from(id),
        name: name.into(),
        content: vec![Block::text(output)],
        is_error,
        kept: None,
        changes: Vec::new(),
        millis: 2_340,
        denied: Some(false),
        summary: None,
    }
}

pub(super) fn turn_ended(turn: u32, outcome: Outcome) -> EventKind {
    EventKind::TurnEnded {
        turn,
        outcome,
        spending: Spending::none(),
    }
}

/// Numbered lines.
pub(super) fn lines(count: usize) -> String {
    (1..=count)
        .map(|number| format!("line {number}\n"))
        .collect()
}

/// A page as it is written in a test: each line after a bar.
pub(super) fn strip_bars(text: &str) -> String {
    let lines: Vec<&str> = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix('|'))
        .collect();
    lines.join("\n")
}

/// The page that events make.
pub(super) fn check(events: &[EventKind], expect: &str) {
    assert_eq!(
        page(&mut transcript_of(events)),
        strip_bars(expect),
        "{events:#?}"
    );
}
