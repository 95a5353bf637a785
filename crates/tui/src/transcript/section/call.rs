//! What a tool call shows, open and closed.

use std::borrow::Cow;

use super::{Content, Extent, Form, LIVE, List, more};
use crate::transcript::amount;
use crate::transcript::call::{Call, CallState};
use crate::transcript::input::Input;

/// The last lines of what a command printed.
const PRINTED: usize = 3;
/// The last lines of what goes on in the background.
const BACKGROUND: usize = 3;
/// The first lines of what was changed.
const CHANGED: usize = 12;

/// What it was asked, what it did, all that it printed.
pub(super) fn open<'a>(list: &mut List<'a>, call: &'a Call) {
    match &call.input {
        Input::Part { .. } | Input::Nothing => {}
        Input::Command(command) => list.body(command, Form::Code("bash"), Extent::All),
        Input::File { path, content } => list.body(content, Form::Code(path), Extent::All),
        Input::Plan(_) => plan(list, call),
        // What an edit was to do is seen in what it did.
        Input::Json(_) if !call.changes.is_empty() => {}
        Input::Json(json) => list.body(json, Form::Code("json"), Extent::All),
    }
    // A new file is its content.
    if !matches!(call.input, Input::File { .. }) || call.tally.1 > 0 {
        for change in &call.changes {
            if call.changes.len() > 1 {
                list.remark(change.path.clone());
            }
            if let Some(diff) = &change.diff {
                list.body(diff, Form::Diff, Extent::All);
            }
        }
    }
    let is_told = matches!(call.input, Input::Plan(_)) && !call.is_failed();
    if !call.output.trim().is_empty() && !is_told {
        list.body(&call.output, Form::Output, Extent::All);
    }
    if let Some(kept) = &call.kept {
        let size = amount::size(kept.bytes);
        let handle = &kept.handle;
        list.remark(format!("all of it ({size}) is kept as `{handle}`"));
    }
    background(list, call);
}

/// What is worth seeing of it at a glance.
pub(super) fn closed<'a>(list: &mut List<'a>, call: &'a Call) {
    match call.state {
        CallState::Written | CallState::Waiting => {}
        CallState::Running | CallState::CutOff => {
            if !call.output.trim().is_empty() {
                list.body(&call.output, Form::Output, Extent::Last(LIVE));
            }
        }
        CallState::Ended { .. } if !call.changes.is_empty() => changes(list, call),
        CallState::Ended { is_error, .. } => match call.name.as_str() {
            "bash" | "bash_job" if call.printed().trim().is_empty() => {}
            // Its tail goes on from there.
            "bash" if call.goes_on() && has_tail(call) => {}
            "bash" | "bash_job" => {
                list.body(call.printed(), Form::Output, Extent::Last(PRINTED));
            }
            _ if is_error => list.body(&call.output, Form::Error, Extent::First(PRINTED)),
            _ => {}
        },
    }
    background(list, call);
}

/// The beginning of what was changed.
fn changes<'a>(list: &mut List<'a>, call: &'a Call) {
    let mut room = CHANGED;
    let mut left = 0;
    for (change, lines) in call.changes.iter().zip(&call.lengths) {
        let Some(diff) = &change.diff else {
            continue;
        };
        // Of a new file, it goes without saying that it begins at its beginning.
        let (diff, lines) = match diff.split_once('\n') {
            Some((first, rest)) if first.starts_with("@@ -0,0 ") => (rest, lines - 1),
            _ => (diff.as_str(), *lines),
        };
        if room > 0 {
            if call.changes.len() > 1 {
                list.remark(change.path.clone());
            }
            // One line more takes no more room than the words that say so.
            let shown = if lines == room + 1 {
                lines
            } else {
                lines.min(room)
            };
            list.body(diff, Form::Diff, Extent::First(shown));
            left += lines - shown;
            room = room.saturating_sub(shown);
        } else {
            left += lines;
        }
    }
    if left > 0 {
        list.remark(more(left));
    }
}

/// What stands of it in the text, one step a line, is for search; it is drawn as a list.
fn plan<'a>(list: &mut List<'a>, call: &'a Call) {
    let Input::Plan(steps) = &call.input else {
        return;
    };
    let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
    list.push(
        Content::Text {
            text: Cow::Owned(titles.join("\n")),
            form: Form::Plan,
            extent: Extent::All,
        },
        true,
    );
}

/// Something of what goes on can be seen.
fn has_tail(call: &Call) -> bool {
    let job = call.background.as_ref();
    job.is_some_and(|job| !job.tail.trim().is_empty() && job.ending.is_none())
}

fn background<'a>(list: &mut List<'a>, call: &'a Call) {
    let Some(job) = &call.background else {
        return;
    };
    if has_tail(call) {
        list.body(&job.tail, Form::Output, Extent::Last(BACKGROUND));
    }
    match &job.ending {
        // The line above says so.
        None if call.goes_on() => {}
        None => list.remark(format!("job {} goes on", job.job)),
        Some(ending) => list.remark(format!("job {} is over: {ending}", job.job)),
    }
}
