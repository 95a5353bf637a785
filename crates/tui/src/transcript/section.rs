//! The sections of an entry, in order: a title line, and texts. They are borrowed, so that building
//! them is cheap; long texts are laid out in pieces.

mod call;

use std::borrow::Cow;

use super::amount;
use super::entry::{Entry, Tone, is_long};
use super::piece::{self, first_lines};
use crate::amount::{count, some};

/// Lines shown of a long prompt.
const PROMPT: usize = 8;
/// Last lines shown of running work.
const LIVE: usize = 6;
/// A part of an entry.
#[derive(Debug)]
pub(super) struct Section<'a> {
    pub(super) content: Content<'a>,
    /// Part of the body below the title line.
    pub(super) is_body: bool,
}

#[derive(Debug)]
pub(super) enum Content<'a> {
    /// The title line.
    Head,
    /// Markdown, laid out as a whole.
    Words(Said<'a>),
    Text {
        text: Cow<'a, str>,
        form: Form<'a>,
        extent: Extent,
    },
    /// A dim line of the UI.
    Remark(String),
    /// A line that says how much of a text is not shown.
    Rest { text: &'a str, shown: usize },
}

/// Markdown that may still grow.
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
    /// Code, with the name of a file or a language.
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
            if is_open {
                call::open(&mut list, call)
            } else {
                call::closed(&mut list, call)
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
        extent: if is_cut {
            Extent::First(PROMPT)
        } else {
            Extent::All
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

fn more(lines: usize) -> String {
    match lines {
        1 => "… 1 more line".to_owned(),
        _ => format!("… {} more lines", count(lines as u64)),
    }
}

/// The line that stands for the rest of a text.
pub(super) fn rest_of(text: &str, shown: usize) -> String {
    let rest = text[shown..].trim_start_matches('\n');
    match rest.lines().count() {
        0 | 1 => format!("… {} more", amount::size(rest.len() as u64)),
        lines => more(lines),
    }
}

impl Content<'_> {
    /// Number of pieces in which it is laid out.
    pub(super) fn pieces(&self) -> usize {
        match self {
            Self::Text {
                text,
                extent: Extent::All,
                ..
            } => piece::count(text),
            _ => 1,
        }
    }
}
