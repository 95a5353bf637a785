//! Undo hides turns behind one entry; redo shows them again.

use protocol::EventKind;

use super::{names, settle};
use crate::amount::some;
use crate::transcript::entry::{Entry, Tone};
use crate::transcript::log::Log;

pub(super) fn undone(log: &mut Log, event: &EventKind) {
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
    settle(log);
    let is_meant = |index: &usize| {
        log.get(*index).is_some_and(|item| {
            item.turn >= *turn && item.hidden_by.is_none() && item.entry != Entry::Gone
        })
    };
    let hidden: Vec<usize> = (0..log.len()).filter(is_meant).collect();
    let files = files(*restored, *removed);
    let undo = log.push(Entry::Undone {
        title: format!("turn {turn} was taken back{files}"),
        left: names(left),
    });
    // The entry belongs to the turn before, so that undoing that one hides it too.
    log.story.turn = turn.saturating_sub(1);
    log.set_turn(undo, log.story.turn);
    for index in hidden {
        log.hide(index, Some(undo));
    }
    log.story.undone.push(undo);
}

pub(super) fn redone(log: &mut Log, event: &EventKind) {
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
    settle(log);
    if let Some(undo) = log.story.undone.pop() {
        for index in 0..undo {
            if log.get(index).and_then(|item| item.hidden_by) == Some(undo) {
                log.hide(index, None);
            }
        }
        log.change(undo, |entry| *entry = Entry::Gone);
    }
    log.story.turn = *turn;
    let files = files(*restored, *removed);
    let text = format!("turn {turn} counts again{files}");
    log.push(Entry::note(text, Tone::Plain));
    if !left.is_empty() {
        let text = format!("left as they are: {}", names(left).join(", "));
        log.push(Entry::note(text, Tone::Warning));
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
