//! Notes about events.

use std::collections::BTreeMap;

use protocol::{Decision, EventKind, Outcome, Question, Scope, Subject};

use super::is_done;
use crate::text::clean;
use crate::transcript::amount;
use crate::transcript::entry::{Entry, Tone};
use crate::transcript::log::Log;
use crate::transcript::summary::one_line;

/// A turn of at least this many milliseconds gets a note when it is done.
const LONG: u64 = 10_000;

/// The note for an event that has no entry of another kind.
pub(super) fn of(event: &EventKind) -> Option<Entry> {
    Some(match event {
        EventKind::SessionStarted {
            forked_from: Some(fork),
            ..
        } => Entry::note(format!("a fork of {}", fork.session), Tone::Plain),
        EventKind::SandboxStarted {
            replaces: Some(why),
            ..
        } => {
            let text = format!("the sandbox was lost, and a new one stands: {}", said(why));
            Entry::note(text, Tone::Warning)
        }
        EventKind::Noted { text } => noted(text),
        EventKind::ModelChanged { model, .. } => {
            Entry::note(format!("the model is now {}", one_line(model)), Tone::Plain)
        }
        EventKind::CommandRefused { reason } => {
            Entry::note(format!("refused: {}", said(reason)), Tone::Warning)
        }
        EventKind::Decided {
            question,
            decision: Some(decision),
        } => decided(question, decision),
        // Shown elsewhere on the screen.
        _ => return None,
    })
}

pub(super) fn outcome(outcome: &Outcome, millis: u64) -> Option<Entry> {
    let text = match outcome {
        Outcome::Failed { reason } => format!("failed: {}", said(reason)),
        Outcome::Budget { reason, .. } => format!("the budget is used up: {}", said(reason)),
        Outcome::Provider { reason, .. } => format!("the provider failed: {}", said(reason)),
        Outcome::Interrupted => return Some(Entry::note("interrupted", Tone::Warning)),
        Outcome::Done if millis >= LONG => format!("done in {}", amount::time(millis)),
        Outcome::Done => return None,
    };
    let tone = if is_done(outcome) {
        Tone::Plain
    } else {
        Tone::Error
    };
    Some(Entry::note(text, tone))
}

/// Notes the files that an undo would not restore. The user should know before it matters, and once
/// per file.
pub(super) fn skipped(log: &mut Log, skipped: &BTreeMap<String, String>) {
    let told = &mut log.story.told;
    let mut news = skipped.iter().filter(|(path, _)| !told.contains(*path));
    let Some((path, why)) = news.next() else {
        return;
    };
    let more = match news.count() {
        0 => String::new(),
        more => format!(", and {} more", crate::amount::count(more as u64)),
    };
    let text = format!(
        "not on record for an undo: {}: {}{more}",
        one_line(path),
        one_line(why)
    );
    told.extend(skipped.keys().cloned());
    log.push(Entry::note(text, Tone::Plain));
}

fn noted(text: &str) -> Entry {
    let text = said(text);
    let text = text.trim();
    match text.split_once('\n') {
        None => Entry::note(format!("note to the model: {text}"), Tone::Plain),
        Some((first, _)) => Entry::Folded {
            title: format!("note to the model: {}", one_line(first)),
            text: text.to_owned(),
        },
    }
}

fn decided(question: &Question, decision: &Decision) -> Entry {
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
        Tone::Good
    } else {
        Tone::Warning
    };
    Entry::note(text, tone)
}

fn said(text: &str) -> String {
    clean(text).trim_end().to_owned()
}
