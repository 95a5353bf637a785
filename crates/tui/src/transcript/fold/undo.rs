//! Undo hides turns behind one entry; redo shows them again.

use protocol::EventKind;

use super::{close_turn, single_line_names};
use crate::amount::some;
use crate::transcript::entry::{NoteTone, TranscriptEntry};
use crate::transcript::log::EntryLog;

pub(super) fn apply_undo(log: &mut EntryLog, event: &EventKind) {
    let EventKind::Undone {
        turn,
        restored,
        removed,
        left,
        ..
    } = event
    else {
        return;
    };
    close_turn(log);
    let is_meant = |index: &usize| {
        log.get(*index).is_some_and(|item| {
            item.turn >= *turn && item.hidden_by.is_none() && item.entry != TranscriptEntry::Gone
        })
    };
    let hidden: Vec<usize> = (0..log.len()).filter(is_meant).collect();
    let files = files(*restored, *removed);
    let undo = log.push(TranscriptEntry::Undone {
        title: format!("turn {turn} was taken back{files}"),
        left: single_line_names(left),
    });
    // The entry belongs to the turn before, so that undoing that one hides it too.
    log.state.turn = turn.saturating_sub(1);
    log.set_turn(undo, log.state.turn);
    for index in hidden {
        log.hide(index, Some(undo));
    }
    log.state.undone.push(undo);
}

pub(super) fn apply_redo(log: &mut EntryLog, event: &EventKind) {
    let EventKind::Redone {
        turn,
        restored,
        removed,
        left,
        ..
    } = event
    else {
        return;
    };
    close_turn(log);
    if let Some(undo) = log.state.undone.pop() {
        for index in 0..undo {
            if log.get(index).and_then(|item| item.hidden_by) == Some(undo) {
                log.hide(index, None);
            }
        }
        log.change(undo, |entry| *entry = TranscriptEntry::Gone);
    }
    log.state.turn = *turn;
    let files = files(*restored, *removed);
    let text = format!("turn {turn} counts again{files}");
    log.push(TranscriptEntry::note(text, NoteTone::Plain));
    if !left.is_empty() {
        let text = format!("left as they are: {}", single_line_names(left).join(", "));
        log.push(TranscriptEntry::note(text, NoteTone::Warning));
    }
}

fn files(restored: u64, removed: u64) -> String {
    let restored = match restored {
        0 => None,
        count => Some(format!("{} restored", some(count, "file", "files"))),
    };
    match (restored, removed) {
        (None, 0) => String::new(),
        (Some(restored), 0) => format!(": {restored}"),
        (Some(restored), removed) => format!(": {restored}, {removed} removed"),
        (None, removed) => format!(": {} removed", some(removed, "file", "files")),
    }
}
