//! What an entry shows, in order: a line that says what it is, and texts. Borrowed, so that asking
//! costs nothing; long texts are cut into pieces that are laid out one by one.

use std::borrow::Cow;

use super::amount;
use super::call::{Call, CallState, Input};
use super::entry::{Entry, Tone, is_long};
use crate::amount::{count, some};

/// Of a longer prompt, so many lines are shown.
const PROMPT: usize = 8;
/// The last lines of what runs.
const LIVE: usize = 6;
/// The last lines of what a command printed.
const PRINTED: usize = 3;
/// The last lines of what goes on in the background.
const BACKGROUND: usize = 3;
/// The first lines of what was changed.
const CHANGED: usize = 12;

/// Text is laid out in pieces of about this size, in bytes.
pub(super) const PIECE: usize = 8 * 1024;

/// A part of an entry.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) content: Content<'a>,
    /// Belongs to the line above it.
    pub(super) is_body: bool,
}

#[derive(Debug)]
pub(super) enum Content<'a> {
    /// The line that says what the entry is.
    Head,
    /// Markdown, laid out as one.
    Words(Said<'a>),
    Text {
        text: Cow<'a, str>,
        form: Form<'a>,
        extent: Extent,
    },
    /// A dim line of our own.
    Remark(String),
    /// Says how much of a text is not shown.
    Rest { text: &'a str, shown: usize },
}

/// Markdown, of which more may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Said<'a> {
    pub(super) text: &'a str,
    pub(super) is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Form<'a> {
    Person,
    Note(Tone),
    Thinking,
    Output,
    /// With the name of a file or a language.
    Code(&'a str),
    Diff,
    Plan,
    Error,
}

/// How much of a text is shown, in lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    All,
    First(usize),
    Last(usize),
}

pub(super) fn of(entry: &Entry, is_open: bool) -> Vec<Section<'_>> {
    let mut list = List(Vec::new());
    match entry {
        Entry::Prompt { text, images } => prompt(&mut list, text, *images, is_open),
        Entry::Words { text, is_whole } => list.plain(Content::Words(Said {
            text,
            is_whole: *is_whole,
        })),
        Entry::Thinking(thinking) => {
            list.plain(Content::Head);
            let extent = match (is_open, thinking.is_over) {
                (true, _) => Some(Extent::All),
                (false, false) => Some(Extent::Last(LIVE)),
                (false, true) => None,
            };
            if let Some(extent) = extent.filter(|_| !thinking.text.is_empty()) {
                list.body(&thinking.text, Form::Thinking, extent);
            }
        }
        Entry::Call(call) => {
            list.plain(Content::Head);
            match is_open {
                true => open_call(&mut list, call),
                false => closed_call(&mut list, call),
            }
        }
        Entry::Note { text, tone } => list.plain(Content::Text {
            text: Cow::Borrowed(text),
            form: Form::Note(*tone),
            extent: Extent::All,
        }),
        Entry::Folded { text, .. } => {
            list.plain(Content::Head);
            if is_open {
                let said = Said {
                    text,
                    is_whole: true,
                };
                list.push(Content::Words(said), true);
            }
        }
        Entry::Undone { left, .. } => {
            list.plain(Content::Head);
            if !left.is_empty() {
                let text = format!("left as they are: {}", left.join(", "));
                list.push(
                    Content::Text {
                        text: Cow::Owned(text),
                        form: Form::Note(Tone::Warning),
                        extent: Extent::All,
                    },
                    false,
                );
            }
        }
        Entry::Gone => {}
    }
    list.0
}

struct List<'a>(Vec<Section<'a>>);

impl<'a> List<'a> {
    fn push(&mut self, content: Content<'a>, is_body: bool) {
        self.0.push(Section { content, is_body });
    }

    fn plain(&mut self, content: Content<'a>) {
        self.push(content, false);
    }

    fn body(&mut self, text: &'a str, form: Form<'a>, extent: Extent) {
        let content = Content::Text {
            text: Cow::Borrowed(text),
            form,
            extent,
        };
        self.push(content, true);
    }

    fn remark(&mut self, text: String) {
        self.push(Content::Remark(text), true);
    }
}

fn prompt<'a>(list: &mut List<'a>, text: &'a str, images: usize, is_open: bool) {
    let is_cut = is_long(text) && !is_open;
    list.plain(Content::Text {
        text: Cow::Borrowed(text),
        form: Form::Person,
        extent: match is_cut {
            true => Extent::First(PROMPT),
            false => Extent::All,
        },
    });
    if is_cut {
        list.plain(Content::Rest {
            text,
            shown: first_lines(text, PROMPT).len(),
        });
    }
    if images > 0 {
        list.plain(Content::Remark(some(images as u64, "picture", "pictures")));
    }
}

fn open_call<'a>(list: &mut List<'a>, call: &'a Call) {
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

fn closed_call<'a>(list: &mut List<'a>, call: &'a Call) {
    match call.state {
        CallState::Written | CallState::Waiting => {}
        CallState::Running | CallState::CutOff => {
            if !call.output.trim().is_empty() {
                list.body(&call.output, Form::Output, Extent::Last(LIVE));
            }
        }
        CallState::Ended { .. } if !call.changes.is_empty() => changes(list, call),
        CallState::Ended { is_error, .. } => match call.name.as_str() {
            "bash" | "bash_job" => {
                if !call.printed().trim().is_empty() {
                    list.body(call.printed(), Form::Output, Extent::Last(PRINTED));
                }
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
        let lines = *lines;
        if room > 0 {
            if call.changes.len() > 1 {
                list.remark(change.path.clone());
            }
            // One line more takes no more room than the words that say so.
            let shown = if lines == room + 1 { lines } else { lines.min(room) };
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

fn background<'a>(list: &mut List<'a>, call: &'a Call) {
    let Some(job) = &call.background else {
        return;
    };
    if !job.tail.trim().is_empty() && job.ending.is_none() {
        list.body(&job.tail, Form::Output, Extent::Last(BACKGROUND));
    }
    list.remark(match &job.ending {
        None => format!("job {} goes on", job.job),
        Some(ending) => format!("job {} is over: {ending}", job.job),
    });
}

fn more(lines: usize) -> String {
    match lines {
        1 => "… 1 more line".to_owned(),
        _ => format!("… {} more lines", count(lines as u64)),
    }
}

/// What is said in the place of the rest of a text.
pub(super) fn rest_of(text: &str, shown: usize) -> String {
    let rest = text[shown..].trim_start_matches('\n');
    match rest.lines().count() {
        0 | 1 => format!("… {} more", amount::size(rest.len() as u64)),
        lines => more(lines),
    }
}

/// The first lines of a text, as far as they are of a reasonable size.
pub(super) fn first_lines(text: &str, lines: usize) -> &str {
    let most = text.floor_char_boundary(lines * 240);
    let start = &text[..most];
    let mut ends = start.match_indices('\n').map(|(end, _)| end);
    match ends.nth(lines.saturating_sub(1)) {
        Some(end) => &start[..end],
        None => start,
    }
}

/// The last lines of a text, as far as they are of a reasonable size.
pub(super) fn last_lines(text: &str, lines: usize) -> &str {
    let text = text.trim_end_matches(['\n', '\r']);
    let most = text.ceil_char_boundary(text.len().saturating_sub(lines * 1024));
    let end = &text[most..];
    let mut starts = end.rmatch_indices('\n').map(|(start, _)| start + 1);
    match starts.nth(lines.saturating_sub(1)) {
        Some(start) => &end[start..],
        None => end,
    }
}

impl Content<'_> {
    /// How many pieces it is laid out in.
    pub(super) fn pieces(&self) -> usize {
        match self {
            Self::Text {
                text,
                extent: Extent::All,
                ..
            } => text.len().div_ceil(PIECE).max(1),
            _ => 1,
        }
    }
}

/// One of the pieces of a text: whole lines, if they are not too long for that.
pub(super) fn piece(text: &str, piece: usize) -> std::ops::Range<usize> {
    start_of(text, piece)..start_of(text, piece + 1)
}

/// The piece that has a byte.
pub(super) fn piece_at(text: &str, offset: usize) -> usize {
    let guess = offset / PIECE;
    // A piece begins after its nominal place, if anywhere else.
    match start_of(text, guess) > offset {
        true => guess.saturating_sub(1),
        false => guess,
    }
}

/// Found by looking at the text around it alone. Never before the start of an earlier piece.
fn start_of(text: &str, piece: usize) -> usize {
    let nominal = piece.saturating_mul(PIECE);
    if nominal == 0 || nominal >= text.len() {
        return nominal.min(text.len());
    }
    let bytes = text.as_bytes();
    let end = (nominal - 1 + PIECE).min(bytes.len());
    let window = &bytes[nominal - 1..end];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(place) => nominal + place,
        None if end == bytes.len() => end,
        None => text.floor_char_boundary(nominal),
    }
}
