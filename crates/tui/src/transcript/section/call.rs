//! What a tool call shows, open and closed.

use std::borrow::Cow;

use protocol::ShownOutput;

use super::{MAX_LIVE_LINES, SectionContent, SectionList, TextExtent, TextForm, more_lines_text};
use crate::transcript::amount;
use crate::transcript::call::{CallEntry, CallEntryState};
use crate::transcript::input::Input;

/// The last lines of what a command printed.
const PRINTED: usize = 3;
/// The last lines of what goes on in the background.
const BACKGROUND: usize = 3;
/// The first lines of what was changed.
const CHANGED: usize = 12;

/// What it was asked, what it did, all that it printed.
pub(super) fn open<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    match &call.input {
        Input::Part { .. } | Input::Nothing => {}
        Input::Text { language, text } => {
            list.body(text, TextForm::Code(language), TextExtent::All);
        }
        Input::Plan(_) => plan(list, call),
        // What an edit was to do is seen in what it did.
        Input::Json(_) if !call.changes.is_empty() => {}
        Input::Json(json) => list.body(json, TextForm::Code("json"), TextExtent::All),
    }
    // A new file is its content.
    if !matches!(call.input, Input::Text { .. }) || call.tally.1 > 0 {
        for change in &call.changes {
            if call.changes.len() > 1 {
                list.push_remark(change.path.clone());
            }
            if let Some(diff) = &change.diff {
                list.body(diff, TextForm::Diff, TextExtent::All);
            }
        }
    }
    let is_told = matches!(call.input, Input::Plan(_)) && !call.has_failed();
    if !call.output.trim().is_empty() && !is_told {
        list.body(&call.output, TextForm::Output, TextExtent::All);
    }
    if let Some(kept) = &call.kept {
        let size = amount::size(kept.bytes);
        let handle = &kept.handle;
        list.push_remark(format!("all of it ({size}) is kept as `{handle}`"));
    }
    background(list, call);
}

/// What is worth seeing of it at a glance.
pub(super) fn closed<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    match call.state {
        CallEntryState::Written | CallEntryState::Waiting => {}
        CallEntryState::Running | CallEntryState::CutOff => {
            if !call.output.trim().is_empty() {
                list.body(
                    &call.output,
                    TextForm::Output,
                    TextExtent::Last(MAX_LIVE_LINES),
                );
            }
        }
        CallEntryState::Ended { .. } if !call.changes.is_empty() => changes(list, call),
        CallEntryState::Ended { is_error, .. } => match call.summary.output {
            _ if call.printed().trim().is_empty() => {}
            // Its tail goes on from there.
            ShownOutput::Command if call.goes_on() && has_tail(call) => {}
            ShownOutput::Command => {
                list.body(call.printed(), TextForm::Output, TextExtent::Last(PRINTED));
            }
            _ if is_error => list.body(&call.output, TextForm::Error, TextExtent::First(PRINTED)),
            ShownOutput::Text | ShownOutput::Image | ShownOutput::Rich => {
                list.body(&call.output, TextForm::Output, TextExtent::Last(PRINTED));
            }
            ShownOutput::Nothing | ShownOutput::Diff | ShownOutput::Plan => {}
        },
    }
    background(list, call);
}

/// The beginning of what was changed.
fn changes<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
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
                list.push_remark(change.path.clone());
            }
            // One line more takes no more room than the words that say so.
            let shown = if lines == room + 1 {
                lines
            } else {
                lines.min(room)
            };
            list.body(diff, TextForm::Diff, TextExtent::First(shown));
            left += lines - shown;
            room = room.saturating_sub(shown);
        } else {
            left += lines;
        }
    }
    if left > 0 {
        list.push_remark(more_lines_text(left));
    }
}

/// What stands of it in the text, one step a line, is for search; it is drawn as a list.
fn plan<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    let Input::Plan(steps) = &call.input else {
        return;
    };
    let titles: Vec<&str> = steps.iter().map(|step| step.title.as_str()).collect();
    list.push(
        SectionContent::Text {
            text: Cow::Owned(titles.join("\n")),
            form: TextForm::Plan,
            extent: TextExtent::All,
        },
        true,
    );
}

/// Something of what goes on can be seen.
fn has_tail(call: &CallEntry) -> bool {
    let job = call.background.as_ref();
    job.is_some_and(|job| !job.tail.trim().is_empty() && job.ending.is_none())
}

fn background<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    let Some(job) = &call.background else {
        return;
    };
    if has_tail(call) {
        list.body(&job.tail, TextForm::Output, TextExtent::Last(BACKGROUND));
    }
    match &job.ending {
        // The line above says so.
        None if call.goes_on() => {}
        None => list.push_remark(format!("job {} goes on", job.job)),
        Some(ending) => list.push_remark(format!("job {} is over: {ending}", job.job)),
    }
}
