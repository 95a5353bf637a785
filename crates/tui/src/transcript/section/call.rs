//! What a tool call shows, open and closed.

use std::borrow::Cow;

use protocol::ShownOutput;

use super::{MAX_LIVE_LINES, SectionContent, SectionList, TextExtent, TextForm, more_lines_text};
use crate::transcript::amount;
use crate::transcript::call::{CallEntry, CallEntryState};
use crate::transcript::input::Input;

/// Last lines shown of the output of a command.
const MAX_OUTPUT_LINES: usize = 3;
/// Last lines shown of the output of a background job.
const MAX_BACKGROUND_LINES: usize = 3;
/// First lines shown of a diff.
const MAX_CHANGED_LINES: usize = 12;

/// An open call: its input, its changes and its whole output.
pub(super) fn open<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    match &call.input {
        Input::Part { .. } | Input::Nothing => {}
        Input::Text { language, text } => {
            list.body(text, TextForm::Code(language), TextExtent::All);
        }
        Input::Plan(_) => plan(list, call),
        // The changes show it.
        Input::Json(_) if !call.changes.is_empty() => {}
        Input::Json(json) => list.body(json, TextForm::Code("json"), TextExtent::All),
    }
    // The input of a new file already shows its content.
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
    let is_plan = matches!(call.input, Input::Plan(_)) && !call.has_failed();
    if !call.output.trim().is_empty() && !is_plan {
        list.body(&call.output, TextForm::Output, TextExtent::All);
    }
    if let Some(kept) = &call.kept {
        let size = amount::size(kept.bytes);
        let handle = &kept.handle;
        list.push_remark(format!("all of it ({size}) is kept as `{handle}`"));
    }
    background(list, call);
}

/// A closed call: the most useful lines.
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
            // The output of the background job continues it.
            ShownOutput::Command if call.is_in_background() && has_tail(call) => {}
            ShownOutput::Command => {
                list.body(
                    call.printed(),
                    TextForm::Output,
                    TextExtent::Last(MAX_OUTPUT_LINES),
                );
            }
            _ if is_error => list.body(
                &call.output,
                TextForm::Error,
                TextExtent::First(MAX_OUTPUT_LINES),
            ),
            ShownOutput::Text | ShownOutput::Image | ShownOutput::Rich => {
                list.body(
                    &call.output,
                    TextForm::Output,
                    TextExtent::Last(MAX_OUTPUT_LINES),
                );
            }
            ShownOutput::Nothing | ShownOutput::Diff | ShownOutput::Plan => {}
        },
    }
    background(list, call);
}

/// The first lines of the diffs.
fn changes<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    let mut room = MAX_CHANGED_LINES;
    let mut left = 0;
    for (change, lines) in call.changes.iter().zip(&call.lengths) {
        let Some(diff) = &change.diff else {
            continue;
        };
        // The first hunk header of a new file says nothing.
        let (diff, lines) = match diff.split_once('\n') {
            Some((first, rest)) if first.starts_with("@@ -0,0 ") => (rest, lines - 1),
            _ => (diff.as_str(), *lines),
        };
        if room > 0 {
            if call.changes.len() > 1 {
                list.push_remark(change.path.clone());
            }
            // A last line takes no more room than a remark about it.
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

/// The steps of a plan. The text is only for search; the section is drawn as a list.
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

/// Whether a running background job has output to show.
fn has_tail(call: &CallEntry) -> bool {
    let job = call.background.as_ref();
    job.is_some_and(|job| !job.tail.trim().is_empty() && job.ending.is_none())
}

fn background<'a>(list: &mut SectionList<'a>, call: &'a CallEntry) {
    let Some(job) = &call.background else {
        return;
    };
    if has_tail(call) {
        list.body(
            &job.tail,
            TextForm::Output,
            TextExtent::Last(MAX_BACKGROUND_LINES),
        );
    }
    match &job.ending {
        // The title says so.
        None if call.is_in_background() => {}
        None => list.push_remark(format!("job {} goes on", job.job)),
        Some(ending) => list.push_remark(format!("job {} is over: {ending}", job.job)),
    }
}
