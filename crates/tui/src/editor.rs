//! A multi-line editor with wrapped lines, pasted blocks and images that are a single character in
//! the text, and a message history. Pure.
//!
//! Never decides what a key means ([`crate::app`] does). Entry type: [`Editor`].

mod block;
mod change;
mod completion;
mod draft;
mod finder;
mod history;
mod layout;
mod paste;
mod undo;
mod unit;
mod writing;

use std::path::PathBuf;

use ratatui_textarea::{CursorMove, TextArea};

pub(crate) use self::change::Change;
pub(crate) use self::completion::{Completion, Row, Wanted, arguments, commands, files};
pub(crate) use self::draft::Draft;
pub(crate) use self::finder::Finder;
pub(crate) use self::history::History;
pub(crate) use self::layout::{Kind, Piece};
pub(crate) use self::paste::is_picture;
use self::unit::{Unit, Units};

/// Longest text that is edited as plain text; longer text becomes a unit. Cursor positions of the
/// underlying text area must fit into 16 bits.
const LETTERS: usize = 60_000;
/// A unit with more lines cannot be opened.
const LINES: usize = 2_000;
const CHANGES: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Editor {
    area: TextArea<'static>,
    units: Units,
    pub(crate) history: History,
    /// The column that successive moves up and down keep to.
    wanted: Option<usize>,
    /// Width of the last layout in columns.
    width: u16,
    /// First visible row.
    top: usize,
    view: View,
}

/// The visible part, ready to be drawn.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct View {
    pub(crate) rows: Vec<Vec<Piece>>,
    /// Column and row, relative to `rows`.
    pub(crate) cursor: (u16, u16),
    /// Number of rows out of view.
    pub(crate) above: usize,
    pub(crate) below: usize,
}

/// The result of a paste.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pasted {
    Text,
    /// Paths of images, each with the text that stands for it until the image is read.
    Pictures(Vec<(String, PathBuf)>),
}

impl Default for Editor {
    fn default() -> Self {
        Self {
            area: area(Vec::new()),
            units: Units::default(),
            history: History::default(),
            wanted: None,
            width: 80,
            top: 0,
            view: View::default(),
        }
    }
}

fn area(lines: Vec<String>) -> TextArea<'static> {
    let mut area = TextArea::new(lines);
    area.set_max_histories(CHANGES);
    area
}

impl Editor {
    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// The text with pasted blocks in full.
    pub(crate) fn text(&self) -> String {
        self.units.spell(&self.area.lines().join("\n"), Unit::words)
    }

    pub(crate) fn draft(&self) -> Draft {
        Draft {
            text: self.area.lines().join("\n"),
            units: self.units.clone(),
        }
    }

    /// Takes the draft and leaves the editor empty.
    pub(crate) fn take(&mut self) -> Draft {
        let draft = self.draft();
        self.set(Draft::default());
        draft
    }

    /// Replaces the text, with the cursor at the end.
    pub(crate) fn set(&mut self, draft: Draft) {
        let yanked = self.area.yank_text();
        self.area = area(Vec::new());
        if !yanked.chars().any(unit::is_mark) {
            self.area.set_yank_text(yanked);
        }
        self.units = Units::default();
        self.history.leave();
        self.top = 0;
        self.insert(draft);
    }

    /// Inserts a draft before the text.
    pub(crate) fn put_before(&mut self, draft: Draft) {
        let written = self.take();
        self.set(draft);
        if !written.is_blank() {
            self.newline();
            self.insert(written);
        }
    }

    /// Clears the text; [`Change::Undo`] restores it.
    pub(crate) fn clear(&mut self) {
        self.history.leave();
        self.area.clear();
    }

    fn letters(&self) -> usize {
        self.area.lines().iter().map(String::len).sum()
    }

    fn is_full(&self, more: usize) -> bool {
        self.letters() + more > LETTERS || self.area.lines().len() > LINES
    }

    /// Line and character of the cursor.
    pub(crate) fn cursor(&self) -> (usize, usize) {
        let cursor = self.area.cursor();
        (cursor.0, cursor.1)
    }

    /// The line of the cursor, split at the cursor.
    pub(crate) fn around(&self) -> (&str, &str) {
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
        if self.go(row, column.saturating_sub(letters)) {
            self.area.delete_str(letters.min(column));
        }
        self.insert_words(words);
    }

    /// Moves the cursor. Returns false if it cannot reach the position.
    fn go(&mut self, row: usize, column: usize) -> bool {
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
        self.view = View {
            cursor: (small(column), small(row - self.top)),
            above: self.top,
            below: spans.len() - self.top - rows.len(),
            rows,
        };
    }

    /// The layout made by [`Editor::arrange`].
    pub(crate) fn view(&self) -> &View {
        &self.view
    }

    fn line(&self, line: usize) -> &str {
        self.area.lines().get(line).map_or("", String::as_str)
    }

    fn spans(&self, width: u16) -> Vec<layout::Span> {
        let lines = self.area.lines().iter().enumerate();
        lines
            .flat_map(|(line, text)| layout::wrap(line, text, &self.units, text_width(width)))
            .collect()
    }

    /// Screen row and column of the cursor.
    fn place(&self, spans: &[layout::Span]) -> (usize, usize) {
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
