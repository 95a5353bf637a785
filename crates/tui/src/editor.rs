//! A multi-line editor with wrapped lines, pasted blocks and images that are a single character in
//! the text, and a message history. Pure.
//!
//! Never decides what a key means ([`crate::app`] does). Entry type: [`Editor`].

mod block;
mod completion;
mod draft;
mod edit;
mod embed;
mod fuzzy_finder;
mod history;
mod insert;
mod layout;
mod paste;
mod undo;

use std::path::PathBuf;

use ratatui_textarea::{CursorMove, TextArea};

pub(crate) use self::completion::{
    Completion, CompletionRow, CompletionTarget, complete_argument, complete_command, complete_file,
};
pub(crate) use self::draft::MessageDraft;
pub(crate) use self::edit::EditCommand;
use self::embed::{Embed, Embeds};
pub(crate) use self::fuzzy_finder::FuzzyFinder;
pub(crate) use self::history::MessageHistory;
pub(crate) use self::layout::{RowPiece, RowPieceKind};
pub(crate) use self::paste::is_picture;

/// Longest text that is edited as plain text; longer text becomes a unit. Cursor positions of the
/// underlying text area must fit into 16 bits.
const MAX_EDITABLE_BYTES: usize = 60_000;
/// A unit with more lines cannot be opened.
const MAX_EDITABLE_LINES: usize = 2_000;
const MAX_UNDO_STEPS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Editor {
    area: TextArea<'static>,
    units: Embeds,
    pub(crate) history: MessageHistory,
    /// The column that successive moves up and down keep to.
    wanted: Option<usize>,
    /// Width of the last layout in columns.
    width: u16,
    /// First visible row.
    top: usize,
    view: EditorView,
}

/// The visible part, ready to be drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct EditorView {
    pub(crate) rows: Vec<Vec<RowPiece>>,
    /// Column and row, relative to `rows`.
    pub(crate) cursor: (u16, u16),
    /// Number of rows out of view.
    pub(crate) above: usize,
    pub(crate) below: usize,
}

/// The result of a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PasteResult {
    Text,
    /// Paths of images, each with the text that stands for it until the image is read.
    Pictures(Vec<(String, PathBuf)>),
}

impl Default for Editor {
    fn default() -> Self {
        Self {
            area: area(Vec::new()),
            units: Embeds::default(),
            history: MessageHistory::default(),
            wanted: None,
            width: 80,
            top: 0,
            view: EditorView::default(),
        }
    }
}

fn area(lines: Vec<String>) -> TextArea<'static> {
    let mut area = TextArea::new(lines);
    area.set_max_histories(MAX_UNDO_STEPS);
    area
}

impl Editor {
    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// The text with pasted blocks in full.
    pub(crate) fn text(&self) -> String {
        self.units
            .expand(&self.area.lines().join("\n"), Embed::words)
    }

    pub(crate) fn draft(&self) -> MessageDraft {
        MessageDraft {
            text: self.area.lines().join("\n"),
            units: self.units.clone(),
        }
    }

    /// Takes the draft and leaves the editor empty.
    pub(crate) fn take(&mut self) -> MessageDraft {
        let draft = self.draft();
        self.set(MessageDraft::default());
        draft
    }

    /// Replaces the text, with the cursor at the end.
    pub(crate) fn set(&mut self, draft: MessageDraft) {
        let yanked = self.area.yank_text();
        self.area = area(Vec::new());
        if !yanked.chars().any(embed::is_mark) {
            self.area.set_yank_text(yanked);
        }
        self.units = Embeds::default();
        self.history.leave();
        self.top = 0;
        self.insert(draft);
    }

    /// Inserts a draft before the text.
    pub(crate) fn prepend_draft(&mut self, draft: MessageDraft) {
        let written = self.take();
        self.set(draft);
        if !written.is_blank() {
            self.newline();
            self.insert(written);
        }
    }

    /// Clears the text; [`EditCommand::Undo`] restores it.
    pub(crate) fn clear(&mut self) {
        self.history.leave();
        self.area.clear();
    }

    fn letters(&self) -> usize {
        self.area.lines().iter().map(String::len).sum()
    }

    fn is_full(&self, more: usize) -> bool {
        self.letters() + more > MAX_EDITABLE_BYTES || self.area.lines().len() > MAX_EDITABLE_LINES
    }

    /// Line and character of the cursor.
    pub(crate) fn cursor(&self) -> (usize, usize) {
        let cursor = self.area.cursor();
        (cursor.0, cursor.1)
    }

    /// The line of the cursor, split at the cursor.
    pub(crate) fn line_around_cursor(&self) -> (&str, &str) {
        let (row, column) = self.cursor();
        let line = self.area.lines().get(row).map_or("", String::as_str);
        let place = line
            .char_indices()
            .nth(column)
            .map_or(line.len(), |(at, _)| at);
        line.split_at(place)
    }

    /// Replaces `letters` characters before the cursor.
    pub(crate) fn replace_before(&mut self, letters: usize, words: &str) {
        let (row, column) = self.cursor();
        if self.move_to(row, column.saturating_sub(letters)) {
            self.area.delete_str(letters.min(column));
        }
        self.insert_text(words);
    }

    /// Moves the cursor. Returns false if it cannot reach the position.
    fn move_to(&mut self, row: usize, column: usize) -> bool {
        let (Ok(to), Ok(at)) = (u16::try_from(row), u16::try_from(column)) else {
            return false;
        };
        self.area.move_cursor(CursorMove::Jump(to, at));
        self.cursor() == (row, column)
    }

    /// Rows needed to show the whole text.
    pub(crate) fn height(&self, width: u16) -> u16 {
        u16::try_from(self.spans(width).len()).unwrap_or(u16::MAX)
    }

    /// Lays out the visible part. Called before every draw.
    pub(crate) fn arrange(&mut self, width: u16, height: u16) {
        self.width = width;
        let spans = self.spans(width);
        let (row, column) = self.place(&spans);
        let height = usize::from(height.max(1));
        self.top = self.top.min(row).max((row + 1).saturating_sub(height));
        self.top = self.top.min(spans.len().saturating_sub(height));
        let shown = spans.iter().skip(self.top).take(height);
        let rows =
            shown.map(|span| span.pieces(self.line(span.line), &self.units, text_width(width)));
        let rows: Vec<_> = rows.collect();
        let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
        self.view = EditorView {
            cursor: (small(column), small(row - self.top)),
            above: self.top,
            below: spans.len() - self.top - rows.len(),
            rows,
        };
    }

    /// The layout made by [`Editor::arrange`].
    pub(crate) fn view(&self) -> &EditorView {
        &self.view
    }

    fn line(&self, line: usize) -> &str {
        self.area.lines().get(line).map_or("", String::as_str)
    }

    fn spans(&self, width: u16) -> Vec<layout::RowSpan> {
        let lines = self.area.lines().iter().enumerate();
        lines
            .flat_map(|(line, text)| layout::wrap(line, text, &self.units, text_width(width)))
            .collect()
    }

    /// Screen row and column of the cursor.
    fn place(&self, spans: &[layout::RowSpan]) -> (usize, usize) {
        let (line, letter) = self.cursor();
        let row = spans.partition_point(|span| (span.line, span.start) <= (line, letter));
        let row = row.saturating_sub(1);
        let Some(span) = spans.get(row) else {
            return (0, 0);
        };
        let width = text_width(self.width);
        (
            row,
            span.column(self.line(line), &self.units, letter, width),
        )
    }
}

/// One column is reserved for the cursor after the last character of a row.
fn text_width(width: u16) -> usize {
    usize::from(width).saturating_sub(1).max(1)
}
