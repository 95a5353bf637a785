//! Streams a reply in pieces, and replaces them with the complete reply.

use jiff::Timestamp;
use protocol::{Block, CallId};
use serde_json::Value;

use super::{change_call, millis_between, note_plan, push_call};
use crate::text::clean;
use crate::transcript::amount;
use crate::transcript::call::Call;
use crate::transcript::entry::{Entry, Thinking, Tone};
use crate::transcript::log::Log;

/// A part of a complete reply.
enum Part<'a> {
    Words(String),
    Thinking(String),
    /// Redacted thinking, readable only by the provider.
    Sealed,
    Call {
        id: &'a CallId,
        name: &'a str,
        input: &'a Value,
    },
}

pub(super) fn words(log: &mut Log, text: &str, now: Timestamp) {
    match last(log) {
        Some((index, Entry::Words { .. })) => log.change(index, |entry| {
            if let Entry::Words { text: words, .. } = entry {
                words.push_str(text);
            }
        }),
        _ => {
            let words = Entry::Words {
                text: text.to_owned(),
                is_whole: false,
            };
            begin(log, words, now);
        }
    }
}

pub(super) fn thinking(log: &mut Log, text: &str, now: Timestamp) {
    let cleaned = clean(text);
    match last(log) {
        Some((index, Entry::Thinking(_))) => log.change(index, |entry| {
            if let Entry::Thinking(thinking) = entry {
                thinking.text.push_str(&cleaned);
            }
        }),
        _ => {
            let thinking = Thinking {
                text: cleaned.into_owned(),
                begun: Some(now),
                millis: None,
                is_over: false,
            };
            begin(log, Entry::Thinking(thinking), now);
        }
    }
}

pub(super) fn input(log: &mut Log, id: &CallId, name: &str, json: &str, now: Timestamp) {
    let is_it = |entry: Option<&Entry>| matches!(entry, Some(Entry::Call(call)) if call.id == *id);
    let known = log.story.partial.iter().copied();
    let known = known.rev().find(|index| is_it(log.entry(*index)));
    let index = known.unwrap_or_else(|| {
        end_thinking(log, now);
        let index = push_call(log, Call::written(id, name));
        log.story.partial.push(index);
        index
    });
    change_call(log, index, |call| call.write(json));
}

/// Applies the complete reply. Entries of matching pieces stay where they are.
pub(super) fn whole(log: &mut Log, content: &[Block], now: Timestamp) {
    end_thinking(log, now);
    forget_retry(log);
    let parts = parts(content);
    let places = places(log, &parts);
    // Remove calls of earlier replies that never ended, and pieces that the complete reply does not
    // have.
    let partial = std::mem::take(&mut log.story.partial);
    let is_kept = |index: &usize| places.as_ref().is_some_and(|places| places.contains(index));
    for index in partial.iter().copied().filter(|index| !is_kept(index)) {
        remove(log, index);
    }
    for (place, part) in parts.into_iter().enumerate() {
        match places.as_ref().map(|places| places[place]) {
            Some(index) => replace(log, index, part),
            None => push(log, part),
        }
    }
}

/// Drops the pieces received so far.
pub(super) fn void(log: &mut Log) {
    for index in std::mem::take(&mut log.story.partial) {
        remove(log, index);
    }
}

pub(super) fn retry(log: &mut Log, wait_ms: u64, reason: &str) {
    void(log);
    let text = format!(
        "{}; trying again in {}",
        clean(reason).trim_end(),
        amount::time(wait_ms)
    );
    let entry = Entry::note(text, Tone::Warning);
    match log.story.retry {
        Some(index) => log.change(index, |old| *old = entry),
        None => log.story.retry = Some(log.push(entry)),
    }
}

/// Removes the note about a retry: the request succeeded, or the end of the turn reports the
/// failure.
pub(super) fn forget_retry(log: &mut Log) {
    if let Some(index) = log.story.retry.take() {
        remove(log, index);
    }
}

fn remove(log: &mut Log, index: usize) {
    if let Some(Entry::Call(call)) = log.entry(index) {
        let id = call.id.clone();
        if log.story.calls.get(&id) == Some(&index) {
            log.story.calls.remove(&id);
        }
        log.story.open_calls.retain(|open| *open != index);
    }
    log.change(index, |entry| *entry = Entry::Gone);
}

/// The latest piece.
fn last(log: &Log) -> Option<(usize, &Entry)> {
    let index = *log.story.partial.last()?;
    Some((index, log.entry(index)?))
}

fn begin(log: &mut Log, entry: Entry, now: Timestamp) {
    end_thinking(log, now);
    let index = log.push(entry);
    log.story.partial.push(index);
}

fn end_thinking(log: &mut Log, now: Timestamp) {
    if let Some((index, Entry::Thinking(Thinking { is_over: false, .. }))) = last(log) {
        log.change(index, |entry| {
            if let Entry::Thinking(thinking) = entry {
                thinking.is_over = true;
                thinking.millis = thinking.begun.map(|begun| millis_between(begun, now));
            }
        });
    }
}

/// Merges adjacent blocks of the same kind, as their pieces are merged.
fn parts(content: &[Block]) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for block in content {
        match (block, parts.last_mut()) {
            (Block::Text { text, .. }, Some(Part::Words(words))) => words.push_str(text),
            (Block::Text { text, .. }, _) => parts.push(Part::Words(text.clone())),
            (Block::Thinking { thinking, .. }, Some(Part::Thinking(all))) => {
                all.push_str(thinking);
            }
            (Block::Thinking { thinking, .. }, _) => parts.push(Part::Thinking(thinking.clone())),
            (Block::RedactedThinking { .. }, Some(Part::Sealed)) => {}
            (Block::RedactedThinking { .. }, _) => parts.push(Part::Sealed),
            (Block::ToolUse { id, name, input }, _) => parts.push(Part::Call { id, name, input }),
            _ => {}
        }
    }
    parts.retain(|part| match part {
        Part::Words(text) | Part::Thinking(text) => !text.trim().is_empty(),
        _ => true,
    });
    parts
}

/// The entries of all parts, if each part has pieces, in this order.
fn places(log: &Log, parts: &[Part<'_>]) -> Option<Vec<usize>> {
    let mut pieces = log.story.partial.iter().copied();
    let mut places = Vec::new();
    for part in parts {
        places.push(pieces.find(|index| match (part, log.entry(*index)) {
            (Part::Words(_), Some(Entry::Words { text, .. })) => !text.trim().is_empty(),
            (Part::Thinking(_), Some(Entry::Thinking(_))) => true,
            (Part::Call { id, .. }, Some(Entry::Call(call))) => call.id == **id,
            _ => false,
        })?);
    }
    Some(places)
}

fn replace(log: &mut Log, index: usize, part: Part<'_>) {
    match part {
        Part::Words(whole) => log.change(index, |entry| {
            if let Entry::Words { text, is_whole } = entry {
                *is_whole = true;
                if *text != whole {
                    *text = whole;
                }
                text.shrink_to_fit();
            }
        }),
        Part::Thinking(whole) => log.change(index, |entry| {
            if let Entry::Thinking(thinking) = entry {
                thinking.text = clean(&whole).into_owned();
            }
        }),
        Part::Call { input, .. } => {
            change_call(log, index, |call| call.ask(input));
            note_plan(log, index);
        }
        Part::Sealed => {}
    }
}

fn push(log: &mut Log, part: Part<'_>) {
    match part {
        Part::Words(text) => {
            log.push(Entry::Words {
                text,
                is_whole: true,
            });
        }
        Part::Thinking(text) => push_thinking(log, &text),
        Part::Sealed => push_thinking(log, ""),
        Part::Call { id, name, input } => {
            let mut call = Call::written(id, name);
            call.ask(input);
            let index = push_call(log, call);
            note_plan(log, index);
        }
    }
}

fn push_thinking(log: &mut Log, text: &str) {
    log.push(Entry::Thinking(Thinking {
        text: clean(text).into_owned(),
        begun: None,
        millis: None,
        is_over: true,
    }));
}
