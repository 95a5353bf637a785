//! Streams a reply in pieces, and replaces them with the complete reply.

use jiff::Timestamp;
use protocol::{Block, CallId};
use serde_json::Value;

use super::{change_call, millis_between, push_call};
use crate::text::clean;
use crate::transcript::amount;
use crate::transcript::call::CallEntry;
use crate::transcript::entry::{NoteTone, ThinkingEntry, TranscriptEntry};
use crate::transcript::log::EntryLog;

/// A part of a complete reply.
enum ReplyPart<'a> {
    Text(String),
    Thinking(String),
    /// Redacted thinking, readable only by the provider.
    Sealed,
    Call {
        id: &'a CallId,
        name: &'a str,
        input: &'a Value,
    },
}

pub(super) fn append_text(log: &mut EntryLog, text: &str, now: Timestamp) {
    match last_partial(log) {
        Some((index, TranscriptEntry::Reply { .. })) => log.change(index, |entry| {
            if let TranscriptEntry::Reply { text: reply, .. } = entry {
                reply.push_str(text);
            }
        }),
        _ => {
            let reply = TranscriptEntry::Reply {
                text: text.to_owned(),
                is_whole: false,
            };
            push_partial(log, reply, now);
        }
    }
}

pub(super) fn append_thinking(log: &mut EntryLog, text: &str, now: Timestamp) {
    let cleaned = clean(text);
    match last_partial(log) {
        Some((index, TranscriptEntry::Thinking(_))) => log.change(index, |entry| {
            if let TranscriptEntry::Thinking(thinking) = entry {
                thinking.text.push_str(&cleaned);
            }
        }),
        _ => {
            let thinking = ThinkingEntry {
                text: cleaned.into_owned(),
                started_at: Some(now),
                millis: None,
                is_over: false,
            };
            push_partial(log, TranscriptEntry::Thinking(thinking), now);
        }
    }
}

pub(super) fn append_input(
    log: &mut EntryLog,
    id: &CallId,
    name: &str,
    json: &str,
    now: Timestamp,
) {
    let is_it = |entry: Option<&TranscriptEntry>| matches!(entry, Some(TranscriptEntry::Call(call)) if call.id == *id);
    let known = log.state.partial.iter().copied();
    let known = known.rev().find(|index| is_it(log.entry(*index)));
    let index = known.unwrap_or_else(|| {
        end_thinking(log, now);
        let index = push_call(log, CallEntry::written(id, name));
        log.state.partial.push(index);
        index
    });
    change_call(log, index, |call| call.write(json));
}

/// Applies the complete reply. Entries of matching pieces stay where they are.
pub(super) fn complete_reply(log: &mut EntryLog, content: &[Block], now: Timestamp) {
    end_thinking(log, now);
    remove_retry_note(log);
    let parts = parts(content);
    let entries = entries(log, &parts);
    // Remove calls of earlier replies that never ended, and pieces that the complete reply does not
    // have.
    let partial = std::mem::take(&mut log.state.partial);
    let is_kept = |index: &usize| {
        entries
            .as_ref()
            .is_some_and(|entries| entries.contains(index))
    };
    for index in partial.iter().copied().filter(|index| !is_kept(index)) {
        remove_entry(log, index);
    }
    for (index, part) in parts.into_iter().enumerate() {
        match entries.as_ref().map(|entries| entries[index]) {
            Some(index) => replace_partial(log, index, part),
            None => push_part(log, part),
        }
    }
}

/// Drops the pieces received so far.
pub(super) fn drop_partial(log: &mut EntryLog) {
    for index in std::mem::take(&mut log.state.partial) {
        remove_entry(log, index);
    }
}

pub(super) fn note_retry(log: &mut EntryLog, wait_ms: u64, reason: &str) {
    drop_partial(log);
    let text = format!(
        "{}; trying again in {}",
        clean(reason).trim_end(),
        amount::duration_text(wait_ms)
    );
    let entry = TranscriptEntry::note(text, NoteTone::Warning);
    match log.state.retry {
        Some(index) => log.change(index, |old| *old = entry),
        None => log.state.retry = Some(log.push(entry)),
    }
}

/// Removes the note about a retry: the request succeeded, or the end of the turn reports the
/// failure.
pub(super) fn remove_retry_note(log: &mut EntryLog) {
    if let Some(index) = log.state.retry.take() {
        remove_entry(log, index);
    }
}

fn remove_entry(log: &mut EntryLog, index: usize) {
    if let Some(TranscriptEntry::Call(call)) = log.entry(index) {
        let id = call.id.clone();
        if log.state.calls.get(&id) == Some(&index) {
            log.state.calls.remove(&id);
        }
        log.state.open_calls.retain(|open| *open != index);
    }
    log.change(index, |entry| *entry = TranscriptEntry::Gone);
}

/// The latest piece.
fn last_partial(log: &EntryLog) -> Option<(usize, &TranscriptEntry)> {
    let index = *log.state.partial.last()?;
    Some((index, log.entry(index)?))
}

fn push_partial(log: &mut EntryLog, entry: TranscriptEntry, now: Timestamp) {
    end_thinking(log, now);
    let index = log.push(entry);
    log.state.partial.push(index);
}

fn end_thinking(log: &mut EntryLog, now: Timestamp) {
    if let Some((index, TranscriptEntry::Thinking(ThinkingEntry { is_over: false, .. }))) =
        last_partial(log)
    {
        log.change(index, |entry| {
            if let TranscriptEntry::Thinking(thinking) = entry {
                thinking.is_over = true;
                thinking.millis = thinking
                    .started_at
                    .map(|started_at| millis_between(started_at, now));
            }
        });
    }
}

/// Merges adjacent blocks of the same kind, as their pieces are merged.
fn parts(content: &[Block]) -> Vec<ReplyPart<'_>> {
    let mut parts: Vec<ReplyPart<'_>> = Vec::new();
    for block in content {
        match (block, parts.last_mut()) {
            (Block::Text { text, .. }, Some(ReplyPart::Text(reply))) => reply.push_str(text),
            (Block::Text { text, .. }, _) => parts.push(ReplyPart::Text(text.clone())),
            (Block::Thinking { thinking, .. }, Some(ReplyPart::Thinking(all))) => {
                all.push_str(thinking);
            }
            (Block::Thinking { thinking, .. }, _) => {
                parts.push(ReplyPart::Thinking(thinking.clone()))
            }
            (Block::RedactedThinking { .. }, Some(ReplyPart::Sealed)) => {}
            (Block::RedactedThinking { .. }, _) => parts.push(ReplyPart::Sealed),
            (Block::ToolUse { id, name, input }, _) => {
                parts.push(ReplyPart::Call { id, name, input })
            }
            _ => {}
        }
    }
    parts.retain(|part| match part {
        ReplyPart::Text(text) | ReplyPart::Thinking(text) => !text.trim().is_empty(),
        _ => true,
    });
    parts
}

/// The entries of all parts, if each part has pieces, in this order.
fn entries(log: &EntryLog, parts: &[ReplyPart<'_>]) -> Option<Vec<usize>> {
    let mut pieces = log.state.partial.iter().copied();
    let mut entries = Vec::new();
    for part in parts {
        entries.push(pieces.find(|index| match (part, log.entry(*index)) {
            (ReplyPart::Text(_), Some(TranscriptEntry::Reply { text, .. })) => {
                !text.trim().is_empty()
            }
            (ReplyPart::Thinking(_), Some(TranscriptEntry::Thinking(_))) => true,
            (ReplyPart::Call { id, .. }, Some(TranscriptEntry::Call(call))) => call.id == **id,
            _ => false,
        })?);
    }
    Some(entries)
}

fn replace_partial(log: &mut EntryLog, index: usize, part: ReplyPart<'_>) {
    match part {
        ReplyPart::Text(whole) => log.change(index, |entry| {
            if let TranscriptEntry::Reply { text, is_whole } = entry {
                *is_whole = true;
                if *text != whole {
                    *text = whole;
                }
                text.shrink_to_fit();
            }
        }),
        ReplyPart::Thinking(whole) => log.change(index, |entry| {
            if let TranscriptEntry::Thinking(thinking) = entry {
                thinking.text = clean(&whole).into_owned();
            }
        }),
        ReplyPart::Call { input, .. } => {
            change_call(log, index, |call| call.ask(input));
        }
        ReplyPart::Sealed => {}
    }
}

fn push_part(log: &mut EntryLog, part: ReplyPart<'_>) {
    match part {
        ReplyPart::Text(text) => {
            log.push(TranscriptEntry::Reply {
                text,
                is_whole: true,
            });
        }
        ReplyPart::Thinking(text) => push_thinking(log, &text),
        ReplyPart::Sealed => push_thinking(log, ""),
        ReplyPart::Call { id, name, input } => {
            let mut call = CallEntry::written(id, name);
            call.ask(input);
            push_call(log, call);
        }
    }
}

fn push_thinking(log: &mut EntryLog, text: &str) {
    log.push(TranscriptEntry::Thinking(ThinkingEntry {
        text: clean(text).into_owned(),
        started_at: None,
        millis: None,
        is_over: true,
    }));
}
