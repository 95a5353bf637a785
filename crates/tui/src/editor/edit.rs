//! Edits and cursor movements.

use ratatui_textarea::{CursorMove, TextArea};

use super::embed::is_mark;
use super::layout::{chars_after, chars_before};
use super::undo::undo_by_word;
use super::{Editor, MessageDraft, text_width};

/// An edit of the text, or a movement of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EditCommand {
    NewLine,
    Back,
    Forward,
    WordBack,
    WordForward,
    LineStart,
    /// Opens or closes a pasted block beside the cursor; without one, moves to the end of the line.
    LineEnd,
    TextStart,
    TextEnd,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    DeleteToStart,
    DeleteToEnd,
    /// Inserts the text that was last deleted by a word or line command.
    Yank,
    Undo,
    Redo,
}

impl Editor {
    /// Inserts a typed character.
    pub(crate) fn type_letter(&mut self, letter: char) {
        let letter = match letter {
            letter if is_mark(letter) => '\u{fffd}',
            letter => letter,
        };
        if letter.is_control() && letter != '\t' {
            return;
        }
        self.history.leave();
        self.wanted = None;
        self.area.insert_char(letter);
    }

    pub(crate) fn newline(&mut self) {
        self.change(EditCommand::NewLine);
    }

    pub(crate) fn change(&mut self, change: EditCommand) {
        self.wanted = None;
        self.history.leave();
        let (row, column) = self.cursor();
        match change {
            EditCommand::NewLine => self.area.insert_newline(),
            EditCommand::Back => self.step(-1),
            EditCommand::Forward => self.step(1),
            EditCommand::WordBack => self.area.move_cursor(CursorMove::WordBack),
            EditCommand::WordForward => self.area.move_cursor(CursorMove::WordForward),
            EditCommand::LineStart => drop(self.move_to(row, 0)),
            EditCommand::LineEnd => {
                if !self.toggle_block() {
                    let end = self.line(row).chars().count();
                    self.move_to(row, end);
                }
            }
            EditCommand::TextStart => drop(self.move_to(0, 0)),
            EditCommand::TextEnd => {
                let last = self.area.lines().len() - 1;
                let end = self.line(last).chars().count();
                self.move_to(last, end);
            }
            EditCommand::DeleteBack => self.delete_back(),
            EditCommand::DeleteForward => {
                let letters = chars_after(self.line(row), &self.units, column);
                match letters {
                    // At the end of a line: join it with the next one.
                    0 if row + 1 < self.area.lines().len() => {
                        self.move_to(row + 1, 0);
                        self.area.delete_newline();
                    }
                    letters => self.delete(letters),
                }
            }
            EditCommand::DeleteWordBack => drop(self.area.delete_word()),
            EditCommand::DeleteWordForward => drop(self.area.delete_next_word()),
            EditCommand::DeleteToStart => drop(self.area.delete_line_by_head()),
            EditCommand::DeleteToEnd => {
                if column < self.line(row).chars().count() {
                    self.area.delete_line_by_end();
                } else {
                    self.change(EditCommand::DeleteForward);
                }
            }
            EditCommand::Yank => drop(self.area.paste()),
            EditCommand::Undo => undo_by_word(&mut self.area, TextArea::undo, TextArea::redo),
            EditCommand::Redo => undo_by_word(&mut self.area, TextArea::redo, TextArea::undo),
        }
    }

    /// Moves up or down by a screen row. Returns false at the first and the last row.
    pub(crate) fn move_row(&mut self, rows: isize) -> bool {
        let spans = self.spans(self.width);
        let (row, column) = self.place(&spans);
        let Some(span) = row.checked_add_signed(rows).and_then(|row| spans.get(row)) else {
            return false;
        };
        let wanted = *self.wanted.get_or_insert(column);
        let width = text_width(self.width);
        let letter = span.letter(self.line(span.line), &self.units, wanted, width);
        self.history.leave();
        self.move_to(span.line, letter);
        true
    }

    /// Shows the previous message of the history.
    pub(crate) fn older(&mut self) -> bool {
        let written = self.draft();
        let Some(draft) = self.history.older(|| written).cloned() else {
            return false;
        };
        self.show_history_entry(draft);
        true
    }

    /// Shows the next message of the history, and after the newest one the unsent draft.
    pub(crate) fn newer(&mut self) -> bool {
        let Some(draft) = self.history.newer() else {
            return false;
        };
        self.show_history_entry(draft);
        true
    }

    /// Replaces the text and keeps the position in the history.
    fn show_history_entry(&mut self, draft: MessageDraft) {
        let history = std::mem::take(&mut self.history);
        self.set(draft);
        self.history = history;
    }

    fn step(&mut self, direction: isize) {
        let (row, column) = self.cursor();
        let line = self.line(row);
        if direction < 0 {
            if column > 0 {
                let letters = chars_before(line, &self.units, column);
                self.move_to(row, column - letters);
            } else if row > 0 {
                let end = self.line(row - 1).chars().count();
                self.move_to(row - 1, end);
            }
            return;
        }
        match chars_after(line, &self.units, column) {
            0 if row + 1 < self.area.lines().len() => drop(self.move_to(row + 1, 0)),
            letters => drop(self.move_to(row, column + letters)),
        }
    }

    fn delete_back(&mut self) {
        let (row, column) = self.cursor();
        let letters = chars_before(self.line(row), &self.units, column);
        match letters {
            0 | 1 => drop(self.area.delete_char()),
            letters => {
                if self.move_to(row, column - letters) {
                    self.delete(letters);
                }
            }
        }
    }

    /// Deletes characters after the cursor; keeps the yank buffer.
    pub(super) fn delete(&mut self, letters: usize) {
        let yanked = self.area.yank_text();
        self.area.delete_str(letters);
        self.area.set_yank_text(yanked);
    }
}
