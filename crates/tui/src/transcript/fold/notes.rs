//! Notes about events.

use std::collections::BTreeMap;

use protocol::{Decision, EventKind, Outcome, Question, Scope, Subject};

use super::has_succeeded;
use crate::text::clean;
use crate::transcript::amount;
use crate::transcript::entry::{NoteTone, TranscriptEntry};
use crate::transcript::log::EntryLog;
use crate::transcript::summary::one_line;

/// A turn of at least this many milliseconds gets a note when it is done.
const MIN_NOTED_TURN_MILLIS: u64 = 10_000;

/// The note for an event that has no entry of another kind.
pub(super) fn note_for(event: &EventKind) -> Option<TranscriptEntry> {
    Some(match event {
        EventKind::SessionStarted {
            forked_from: Some(fork),
            ..
        } => TranscriptEntry::note(format!("a fork of {}", fork.session), NoteTone::Plain),
        EventKind::SandboxStarted {
            replaces: Some(why),
            ..
        } => {
            let text = format!(
                "the sandbox was lost, and a new one stands: {}",
                clean_text(why)
            );
            TranscriptEntry::note(text, NoteTone::Warning)
        }
        EventKind::Noted { text } => model_note(text),
        EventKind::ModelChanged { model, .. } => TranscriptEntry::note(
            format!("the model is now {}", one_line(model)),
            NoteTone::Plain,
        ),
        EventKind::CommandRefused { reason } => TranscriptEntry::note(
            format!("refused: {}", clean_text(reason)),
            NoteTone::Warning,
        ),
        EventKind::Decided {
            question,
            decision: Some(decision),
        } => decision_note(question, decision),
        // Shown elsewhere on the screen.
        _ => return None,
    })
}

pub(super) fn outcome(outcome: &Outcome, millis: u64) -> Option<TranscriptEntry> {
    let text = match outcome {
        Outcome::Failed { reason } => format!("failed: {}", clean_text(reason)),
        Outcome::Budget { reason, .. } => format!("the budget is used up: {}", clean_text(reason)),
        Outcome::Provider { reason, .. } => format!("the provider failed: {}", clean_text(reason)),
        Outcome::Interrupted => {
            return Some(TranscriptEntry::note("interrupted", NoteTone::Warning));
        }
        Outcome::Done if millis >= MIN_NOTED_TURN_MILLIS => {
            format!("done in {}", amount::duration_text(millis))
        }
        Outcome::Done => return None,
    };
    let tone = if has_succeeded(outcome) {
        NoteTone::Plain
    } else {
        NoteTone::Error
    };
    Some(TranscriptEntry::note(text, tone))
}

/// Notes the files that an undo would not restore. The user should know before it matters, and once
/// per file.
pub(super) fn skipped(log: &mut EntryLog, skipped: &BTreeMap<String, String>) {
    let reported_files = &mut log.state.reported_files;
    let mut unreported = skipped
        .iter()
        .filter(|(path, _)| !reported_files.contains(*path));
    let Some((path, why)) = unreported.next() else {
        return;
    };
    let more = match unreported.count() {
        0 => String::new(),
        more => format!(", and {} more", crate::amount::count(more as u64)),
    };
    let text = format!(
        "not on record for an undo: {}: {}{more}",
        one_line(path),
        one_line(why)
    );
    reported_files.extend(skipped.keys().cloned());
    log.push(TranscriptEntry::note(text, NoteTone::Plain));
}

fn model_note(text: &str) -> TranscriptEntry {
    let text = clean_text(text);
    let text = text.trim();
    match text.split_once('\n') {
        None => TranscriptEntry::note(format!("note to the model: {text}"), NoteTone::Plain),
        Some((first, _)) => TranscriptEntry::Folded {
            title: format!("note to the model: {}", one_line(first)),
            text: text.to_owned(),
        },
    }
}

fn decision_note(question: &Question, decision: &Decision) -> TranscriptEntry {
    let word = if decision.is_allowed {
        "allowed"
    } else {
        "denied"
    };
    let subject = match &question.subject {
        Subject::Host { host } => host.clone(),
        Subject::Tool { tool, argument } => match argument {
            Some(argument) => format!("{tool} {argument}"),
            None => tool.clone(),
        },
    };
    let text = match decision.scope {
        Scope::Once => format!("{word} once: {}", one_line(&question.what)),
        Scope::Session => format!("{word} for this session: {}", one_line(&subject)),
        Scope::Always => format!("always {word}: {}", one_line(&subject)),
    };
    let tone = if decision.is_allowed {
        NoteTone::Good
    } else {
        NoteTone::Warning
    };
    TranscriptEntry::note(text, tone)
}

fn clean_text(text: &str) -> String {
    clean(text).trim_end().to_owned()
}
