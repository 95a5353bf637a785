//! Turns events into entries. Pure: the same events give the same page, and the stored events alone
//! give the same final page as all of them, except for the line of a call that a crash cut off.

mod notes;
mod reply;
mod undo;

use protocol::{BackgroundJob, Block, CallId, Event, EventKind, Outcome, ShownOutput};

use super::call::{CallEntry, CallEntryState};
use super::entry::{NoteTone, TranscriptEntry};
use super::log::EntryLog;
use super::summary::one_line;
use crate::text::clean;

pub(super) fn apply_event(log: &mut EntryLog, event: &Event) {
    if is_duplicate(log, event) {
        return;
    }
    match &event.kind {
        EventKind::TurnStarted { turn, prompt } => {
            close_turn(log);
            log.state.undone.clear();
            log.state.turn = *turn;
            log.state.started_at = Some(event.time);
            log.push(prompt_entry(prompt));
        }
        EventKind::TurnContinued { turn } => {
            close_turn(log);
            log.state.undone.clear();
            log.state.turn = *turn;
            log.state.started_at = Some(event.time);
            log.push(TranscriptEntry::note("taken up again", NoteTone::Plain));
        }
        EventKind::RequestStarted { .. } => reply::drop_partial(log),
        EventKind::Retrying {
            wait_ms, reason, ..
        } => reply::note_retry(log, *wait_ms, reason),
        EventKind::TextDelta { text } => reply::append_text(log, text, event.time),
        EventKind::ThinkingDelta { text } => reply::append_thinking(log, text, event.time),
        EventKind::InputDelta { call, name, json } => {
            reply::append_input(log, call, name, json, event.time);
        }
        EventKind::Replied { content, .. } => reply::complete_reply(log, content, event.time),
        EventKind::ToolStarted {
            call,
            name,
            input,
            summary,
        } => {
            let index = find_or_push_call(log, call, name);
            change_call(log, index, |call| {
                if call.state != CallEntryState::Waiting {
                    call.ask(input);
                }
                call.describe(summary);
                call.state = CallEntryState::Running;
            });
            mark_latest_plan(log, index);
        }
        EventKind::ToolOutput { call, text, .. } => {
            if let Some(index) = log.state.calls.get(call).copied() {
                change_call(log, index, |call| {
                    if !call.is_over() {
                        call.print(text);
                    }
                });
            }
        }
        EventKind::ToolEnded { call, name, .. } => {
            let index = find_or_push_call(log, call, name);
            end_call(log, index, &event.kind);
            mark_latest_plan(log, index);
        }
        EventKind::Background { jobs } => update_background(log, jobs),
        EventKind::TurnEnded { outcome, .. } => {
            close_turn(log);
            let started_at = log.state.started_at.take();
            let millis = started_at.map_or(0, |started_at| millis_between(started_at, event.time));
            if let Some(entry) = notes::outcome(outcome, millis) {
                log.push(entry);
            }
        }
        EventKind::Undone { .. } => undo::apply_undo(log, &event.kind),
        EventKind::Redone { .. } => undo::apply_redo(log, &event.kind),
        EventKind::Compacted { summary, .. } => {
            close_turn(log);
            log.state.undone.clear();
            log.push(TranscriptEntry::Folded {
                title: "the past was put into a summary".to_owned(),
                text: clean(summary).into_owned(),
            });
        }
        EventKind::CheckpointMade { checkpoint, .. } => notes::skipped(log, &checkpoint.skipped),
        other => {
            if let Some(entry) = notes::note_for(other) {
                log.push(entry);
            }
        }
    }
}

/// Whether a stored event was applied before: each counts once, however often it is sent.
fn is_duplicate(log: &mut EntryLog, event: &Event) -> bool {
    let Some(seq) = event.seq else {
        return false;
    };
    if let Some((session, last)) = &log.state.seq
        && *session == event.session
        && seq <= *last
    {
        return true;
    }
    log.state.seq = Some((event.session.clone(), seq));
    false
}

/// Closes the turn: drops partial replies and marks running calls as cut off.
fn close_turn(log: &mut EntryLog) {
    reply::drop_partial(log);
    reply::remove_retry_note(log);
    for index in std::mem::take(&mut log.state.open_calls) {
        change_call(log, index, |call| {
            if !call.is_over() {
                call.state = CallEntryState::CutOff;
            }
        });
    }
}

fn prompt_entry(prompt: &[Block]) -> TranscriptEntry {
    let texts: Vec<&str> = prompt.iter().filter_map(Block::as_text).collect();
    let images = prompt
        .iter()
        .filter(|block| matches!(block, Block::Image { .. }));
    TranscriptEntry::Prompt {
        text: clean(texts.join("\n").trim_matches('\n')).into_owned(),
        images: images.count(),
    }
}

/// The entry of a call that has not ended; created if there is none.
fn find_or_push_call(log: &mut EntryLog, id: &CallId, name: &str) -> usize {
    let known = log.state.calls.get(id).copied();
    let open = known.filter(
        |index| matches!(log.entry(*index), Some(TranscriptEntry::Call(call)) if !call.is_over()),
    );
    open.unwrap_or_else(|| push_call(log, CallEntry::written(id, name)))
}

fn push_call(log: &mut EntryLog, call: CallEntry) -> usize {
    let id = call.id.clone();
    let index = log.push(TranscriptEntry::Call(Box::new(call)));
    log.state.calls.insert(id, index);
    log.state.open_calls.push(index);
    index
}

fn change_call(log: &mut EntryLog, index: usize, change: impl FnOnce(&mut CallEntry)) {
    log.change(index, |entry| {
        if let TranscriptEntry::Call(call) = entry {
            change(call);
        }
    });
}

fn end_call(log: &mut EntryLog, index: usize, ended: &EventKind) {
    let EventKind::ToolEnded {
        content,
        is_error,
        kept,
        changes,
        millis,
        summary,
        ..
    } = ended
    else {
        return;
    };
    log.state.open_calls.retain(|open| *open != index);
    log.state.partial.retain(|partial| *partial != index);
    change_call(log, index, |call| {
        if let Some(summary) = summary {
            call.describe(summary);
        }
        call.kept = kept.clone();
        call.end(result_text(content), changes);
        call.state = CallEntryState::Ended {
            is_error: *is_error,
            millis: *millis,
        };
    });
}

/// The result of a tool as text.
fn result_text(content: &[Block]) -> String {
    let parts: Vec<&str> = content
        .iter()
        .map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            Block::Image { .. } => "[a picture]",
            _ => "[something that cannot be shown]",
        })
        .collect();
    parts.join("\n")
}

/// Marks the latest plan: it is open, earlier ones are closed.
fn mark_latest_plan(log: &mut EntryLog, index: usize) {
    let is_plan = matches!(log.entry(index), Some(TranscriptEntry::Call(call)) if call.summary.output == ShownOutput::Plan);
    if is_plan && log.state.plan != Some(index) {
        let before = log.state.plan.replace(index);
        for index in before.into_iter().chain([index]) {
            log.change(index, |_| {});
        }
    }
}

/// Updates the calls with background jobs. `jobs` has all running jobs and those that have just
/// ended.
fn update_background(log: &mut EntryLog, jobs: &[BackgroundJob]) {
    let mut running = Vec::new();
    for job in jobs {
        let Some(index) = log.state.calls.get(&job.call).copied() else {
            continue;
        };
        if job.ending.is_none() {
            running.push(index);
        }
        let is_news = matches!(log.entry(index), Some(TranscriptEntry::Call(call))
            if call.background.as_ref() != Some(job));
        if is_news {
            change_call(log, index, |call| call.background = Some(job.clone()));
        }
    }
    for index in std::mem::replace(&mut log.state.background, running) {
        if log.state.background.contains(&index) {
            continue;
        }
        change_call(log, index, |call| {
            if let Some(job) = &mut call.background {
                job.ending.get_or_insert_with(|| "ended".to_owned());
            }
        });
    }
}

fn millis_between(from: jiff::Timestamp, to: jiff::Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_millis()).unwrap_or(0)
}

/// File names without line breaks.
fn single_line_names(paths: &[String]) -> Vec<String> {
    paths.iter().map(|path| one_line(path)).collect()
}

/// Whether the turn succeeded.
fn has_succeeded(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done)
}
