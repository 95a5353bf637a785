//! The sections of an entry, in order: a title line, and texts. They are borrowed, so that building
//! them is cheap; long texts are laid out in pieces.

mod call;

use std::borrow::Cow;

use super::amount;
use super::entry::{NoteTone, TranscriptEntry, is_long};
use super::piece::{self, first_lines};
use crate::amount::{count, some};

/// Lines shown of a long prompt.
const COLLAPSED_PROMPT_LINES: usize = 8;
/// Last lines shown of running work.
const MAX_LIVE_LINES: usize = 6;
/// A part of an entry.
#[derive(Debug)]
pub(super) struct EntrySection<'a> {
    pub(super) content: SectionContent<'a>,
    /// Part of the body below the title line.
    pub(super) is_body: bool,
}

#[derive(Debug)]
pub(super) enum SectionContent<'a> {
    /// The title line.
    Head,
    /// Markdown, laid out as a whole.
    Markdown(MarkdownText<'a>),
    Text {
        text: Cow<'a, str>,
        form: TextForm<'a>,
        extent: TextExtent,
    },
    /// A dim line of the UI.
    Remark(String),
    /// A line that says how much of a text is not shown.
    Rest { text: &'a str, shown: usize },
}

/// Markdown that may still grow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MarkdownText<'a> {
    pub(super) text: &'a str,
    pub(super) is_whole: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum TextForm<'a> {
    Person,
    Note(NoteTone),
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
pub(super) enum TextExtent {
    All,
    First(usize),
    Last(usize),
}

pub(super) fn sections_of(entry: &TranscriptEntry, is_open: bool) -> Vec<EntrySection<'_>> {
    let mut list = SectionList(Vec::new());
    match entry {
        TranscriptEntry::Prompt { text, images } => push_prompt(&mut list, text, *images, is_open),
        TranscriptEntry::Reply { text, is_whole } => {
            list.plain(SectionContent::Markdown(MarkdownText {
                text,
                is_whole: *is_whole,
            }))
        }
        TranscriptEntry::Thinking(thinking) => {
            list.plain(SectionContent::Head);
            let extent = match (is_open, thinking.is_over) {
                (true, _) => Some(TextExtent::All),
                (false, false) => Some(TextExtent::Last(MAX_LIVE_LINES)),
                (false, true) => None,
            };
            if let Some(extent) = extent.filter(|_| !thinking.text.is_empty()) {
                list.body(&thinking.text, TextForm::Thinking, extent);
            }
        }
        TranscriptEntry::Call(call) => {
            list.plain(SectionContent::Head);
            if is_open {
                call::open(&mut list, call)
            } else {
                call::closed(&mut list, call)
            }
        }
        TranscriptEntry::Note { text, tone } => list.plain(SectionContent::Text {
            text: Cow::Borrowed(text),
            form: TextForm::Note(*tone),
            extent: TextExtent::All,
        }),
        TranscriptEntry::Folded { text, .. } => {
            list.plain(SectionContent::Head);
            if is_open {
                let markdown = MarkdownText {
                    text,
                    is_whole: true,
                };
                list.push(SectionContent::Markdown(markdown), true);
            }
        }
        TranscriptEntry::Undone { left, .. } => {
            list.plain(SectionContent::Head);
            if !left.is_empty() {
                let text = format!("left as they are: {}", left.join(", "));
                list.push(
                    SectionContent::Text {
                        text: Cow::Owned(text),
                        form: TextForm::Note(NoteTone::Warning),
                        extent: TextExtent::All,
                    },
                    false,
                );
            }
        }
        TranscriptEntry::Gone => {}
    }
    list.0
}

struct SectionList<'a>(Vec<EntrySection<'a>>);

impl<'a> SectionList<'a> {
    fn push(&mut self, content: SectionContent<'a>, is_body: bool) {
        self.0.push(EntrySection { content, is_body });
    }

    fn plain(&mut self, content: SectionContent<'a>) {
        self.push(content, false);
    }

    fn body(&mut self, text: &'a str, form: TextForm<'a>, extent: TextExtent) {
        let content = SectionContent::Text {
            text: Cow::Borrowed(text),
            form,
            extent,
        };
        self.push(content, true);
    }

    fn push_remark(&mut self, text: String) {
        self.push(SectionContent::Remark(text), true);
    }
}

fn push_prompt<'a>(list: &mut SectionList<'a>, text: &'a str, images: usize, is_open: bool) {
    let is_cut = is_long(text) && !is_open;
    list.plain(SectionContent::Text {
        text: Cow::Borrowed(text),
        form: TextForm::Person,
        extent: if is_cut {
            TextExtent::First(COLLAPSED_PROMPT_LINES)
        } else {
            TextExtent::All
        },
    });
    if is_cut {
        list.plain(SectionContent::Rest {
            text,
            shown: first_lines(text, COLLAPSED_PROMPT_LINES).len(),
        });
    }
    if images > 0 {
        list.plain(SectionContent::Remark(some(
            images as u64,
            "picture",
            "pictures",
        )));
    }
}

fn more_lines_text(lines: usize) -> String {
    match lines {
        1 => "… 1 more line".to_owned(),
        _ => format!("… {} more lines", count(lines as u64)),
    }
}

/// The line that stands for the rest of a text.
pub(super) fn rest_text(text: &str, shown: usize) -> String {
    let rest = text[shown..].trim_start_matches('\n');
    match rest.lines().count() {
        0 | 1 => format!("… {} more", amount::size(rest.len() as u64)),
        lines => more_lines_text(lines),
    }
}

/// Number of pieces of some sections.
pub(super) fn piece_count(sections: &[EntrySection<'_>]) -> usize {
    let pieces = sections.iter().map(|section| section.content.pieces());
    pieces.sum()
}

impl SectionContent<'_> {
    /// Number of pieces in which it is laid out.
    pub(super) fn pieces(&self) -> usize {
        match self {
            Self::Text {
                text,
                extent: TextExtent::All,
                ..
            } => piece::piece_count(text),
            _ => 1,
        }
    }
}
