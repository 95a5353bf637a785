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
use self::embed::Embeds;
pub(crate) use self::fuzzy_finder::FuzzyFinder;
pub(crate) use self::history::MessageHistory;
pub(crate) use self::layout::RowPiece;
use self::layout::TextLayout;
pub(crate) use self::paste::is_picture;

/// Longest text that is edited as plain text; longer text becomes a block. Cursor positions of the
/// underlying text area must fit into 16 bits.
const MAX_EDITABLE_BYTES: usize = 60_000;
/// A block with more lines cannot be opened.
const MAX_EDITABLE_LINES: usize = 2_000;
const MAX_UNDO_STEPS: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Editor {
    area: TextArea<'static>,
    embeds: Embeds,
    pub(crate) history: MessageHistory,
    /// The column that successive moves up and down keep to.
    goal_column: Option<usize>,
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
            area: empty_area(),
            embeds: Embeds::default(),
            history: MessageHistory::default(),
            goal_column: None,
            width: 80,
            top: 0,
            view: EditorView::default(),
        }
    }
}

fn empty_area() -> TextArea<'static> {
    let mut area = TextArea::default();
    area.set_max_histories(MAX_UNDO_STEPS);
    area
}

impl Editor {
    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// The text with pasted blocks in full.
    pub(crate) fn text(&self) -> String {
        self.draft().full()
    }

    pub(crate) fn draft(&self) -> MessageDraft {
        MessageDraft {
            text: self.area.lines().join("\n"),
            embeds: self.embeds.clone(),
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
        self.area = empty_area();
        if !yanked.contains(embed::is_embed_char) {
            self.area.set_yank_text(yanked);
        }
        self.embeds = Embeds::default();
        self.history.leave();
        self.top = 0;
        self.insert(draft);
    }

    /// Inserts a draft before the text.
    pub(crate) fn prepend_draft(&mut self, draft: MessageDraft) {
        let written = self.take();
        self.set(draft);
        if !written.is_blank() {
            self.change(EditCommand::NewLine);
            self.insert(written);
        }
    }

    /// Clears the text; [`EditCommand::Undo`] restores it.
    pub(crate) fn clear(&mut self) {
        self.history.leave();
        self.area.clear();
    }

    fn is_full(&self, added: usize) -> bool {
        let lines = self.area.lines();
        let bytes: usize = lines.iter().map(String::len).sum();
        bytes + added > MAX_EDITABLE_BYTES || lines.len() > MAX_EDITABLE_LINES
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
        let cursor = line.char_indices().nth(column);
        line.split_at(cursor.map_or(line.len(), |(offset, _)| offset))
    }

    /// Replaces `chars` characters before the cursor.
    pub(crate) fn replace_before(&mut self, chars: usize, text: &str) {
        let (row, column) = self.cursor();
        if self.move_to(row, column.saturating_sub(chars)) {
            self.area.delete_str(chars.min(column));
        }
        self.insert_text(text);
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
        saturated(self.layout(width).height())
    }

    /// Lays out the visible part. Called before every draw.
    pub(crate) fn arrange(&mut self, width: u16, height: u16) {
        let layout = self.layout(width);
        let (row, column) = layout.position_of(self.cursor());
        let height = usize::from(height.max(1));
        let top = self.top.min(row).max((row + 1).saturating_sub(height));
        let top = top.min(layout.height().saturating_sub(height));
        let bottom = layout.height().min(top + height);
        self.view = EditorView {
            rows: (top..bottom).map(|row| layout.pieces(row)).collect(),
            cursor: (saturated(column), saturated(row - top)),
            above: top,
            below: layout.height() - bottom,
        };
        self.width = width;
        self.top = top;
    }

    /// The layout made by [`Editor::arrange`].
    pub(crate) fn view(&self) -> &EditorView {
        &self.view
    }

    fn layout(&self, width: u16) -> TextLayout<'_> {
        // One column is reserved for the cursor after the last character of a row.
        let width = usize::from(width).saturating_sub(1);
        TextLayout::new(self.area.lines(), &self.embeds, width)
    }
}

fn saturated(number: usize) -> u16 {
    u16::try_from(number).unwrap_or(u16::MAX)
}
