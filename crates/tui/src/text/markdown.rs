//! Lays out a model's text as markdown while it arrives.
//!
//! Only the last top-level block can still change; all blocks before it are laid out once per
//! width. So the cost of a frame depends on that block, and not on the length of the text. The
//! result depends only on the text, not on the pieces in which it arrived. Entry type:
//! [`Markdown`].

mod block;
mod code_cache;
mod fence;
mod inline;
mod label;
mod layout;
mod nesting;
mod stabilize;
mod structure;
mod table;
#[cfg(test)]
mod tests;
mod writer;

use std::cell::RefCell;
use std::ops::Range;

use ratatui::text::Line;

use self::layout::{MarkdownLayout, MarkdownSource};
use super::clean::TextCleaner;
use crate::theme::Theme;

/// A growing text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Markdown {
    source: String,
    /// The cleaned text, if it differs from the source.
    cleaned: Option<String>,
    cleaner: TextCleaner,
    is_open: bool,
    revision: u64,
    /// Cache of the layout. Has no visible effect.
    layout: RefCell<MarkdownLayout>,
}

impl PartialEq for Markdown {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source && self.is_open == other.is_open
    }
}

impl Markdown {
    /// A complete text.
    #[cfg(test)]
    pub(crate) fn new(source: &str) -> Self {
        let mut markdown = Self::default();
        markdown.push(source);
        markdown.finish();
        markdown
    }

    /// Sets the text. If it has only grown, just the new part is laid out again.
    pub(crate) fn set(&mut self, source: &str, is_whole: bool) {
        match source.strip_prefix(self.source.as_str()) {
            Some("") if self.is_open != is_whole => return,
            Some(piece) => self.push(piece),
            None => {
                *self = Self::default();
                self.push(source);
            }
        }
        if is_whole {
            self.finish();
        }
    }

    /// Appends a piece. The text stays open: unfinished marks at its end are shown as if closed.
    pub(crate) fn push(&mut self, piece: &str) {
        let is_clean = self.cleaned.is_none() && self.cleaner.leaves_unchanged(piece);
        self.source.push_str(piece);
        if let Some(cleaned) = &mut self.cleaned {
            self.cleaner.write(piece, cleaned);
        } else if !is_clean {
            let mut cleaned = String::with_capacity(self.source.len());
            self.cleaner = TextCleaner::default();
            self.cleaner.write(&self.source, &mut cleaned);
            self.cleaned = Some(cleaned);
        }
        self.is_open = true;
        self.revision += 1;
    }

    /// Ends the text: its end is shown as written.
    pub(crate) fn finish(&mut self) {
        self.is_open = false;
        self.revision += 1;
    }

    /// The text as the model wrote it: not safe to draw.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    #[cfg(test)]
    pub(crate) fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        self.lines_range(0..usize::MAX, width, theme)
    }

    pub(crate) fn line_count(&self, width: u16, theme: &Theme) -> usize {
        let mut layout = self.layout.borrow_mut();
        layout.update(self.now(), width, theme);
        layout.count()
    }

    /// The lines in this range, as far as they exist.
    pub(crate) fn lines_range(
        &self,
        range: Range<usize>,
        width: u16,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        let mut layout = self.layout.borrow_mut();
        layout.update(self.now(), width, theme);
        layout.take(self.text(), range, theme)
    }

    fn text(&self) -> &str {
        self.cleaned.as_deref().unwrap_or(&self.source)
    }

    fn now(&self) -> MarkdownSource<'_> {
        MarkdownSource {
            text: self.text(),
            is_open: self.is_open,
            revision: self.revision,
        }
    }
}
