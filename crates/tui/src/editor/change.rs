//! Edits and cursor movements.

use ratatui_textarea::{CursorMove, TextArea};

use super::layout::{step_back, step_forward};
use super::undo::by_words;
use super::unit::is_mark;
use super::{Draft, Editor, text_width};

/// An edit of the text, or a movement of the cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
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
        self.change(Change::NewLine);
    }

    pub(crate) fn change(&mut self, change: Change) {
        self.wanted = None;
        self.history.leave();
        let (row, column) = self.cursor();
        match change {
            Change::NewLine => self.area.insert_newline(),
            Change::Back => self.step(-1),
            Change::Forward => self.step(1),
            Change::WordBack => self.area.move_cursor(CursorMove::WordBack),
            Change::WordForward => self.area.move_cursor(CursorMove::WordForward),
            Change::LineStart => drop(self.go(row, 0)),
            Change::LineEnd => {
                if !self.toggle_block() {
                    let end = self.line(row).chars().count();
                    self.go(row, end);
                }
            }
            Change::TextStart => drop(self.go(0, 0)),
            Change::TextEnd => {
                let last = self.area.lines().len() - 1;
                let end = self.line(last).chars().count();
                self.go(last, end);
            }
            Change::DeleteBack => self.delete_back(),
            Change::DeleteForward => {
                let letters = step_forward(self.line(row), &self.units, column);
                match letters {
                    // At the end of a line: join it with the next one.
                    0 if row + 1 < self.area.lines().len() => {
                        self.go(row + 1, 0);
                        self.area.delete_newline();
                    }
                    letters => self.delete(letters),
                }
            }
            Change::DeleteWordBack => drop(self.area.delete_word()),
            Change::DeleteWordForward => drop(self.area.delete_next_word()),
            Change::DeleteToStart => drop(self.area.delete_line_by_head()),
            Change::DeleteToEnd => {
                if column < self.line(row).chars().count() {
                    self.area.delete_line_by_end();
                } else {
                    self.change(Change::DeleteForward);
                }
            }
            Change::Yank => drop(self.area.paste()),
            Change::Undo => by_words(&mut self.area, TextArea::undo, TextArea::redo),
            Change::Redo => by_words(&mut self.area, TextArea::redo, TextArea::undo),
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
        self.go(span.line, letter);
        true
    }

    /// Shows the previous message of the history.
    pub(crate) fn older(&mut self) -> bool {
        let written = self.draft();
        let Some(draft) = self.history.older(|| written).cloned() else {
            return false;
        };
        self.show(draft);
        true
    }

    /// Shows the next message of the history, and after the newest one the unsent draft.
    pub(crate) fn newer(&mut self) -> bool {
        let Some(draft) = self.history.newer() else {
            return false;
        };
        self.show(draft);
        true
    }

    /// Replaces the text and keeps the position in the history.
    fn show(&mut self, draft: Draft) {
        let history = std::mem::take(&mut self.history);
        self.set(draft);
        self.history = history;
    }

    fn step(&mut self, direction: isize) {
        let (row, column) = self.cursor();
        let line = self.line(row);
        if direction < 0 {
            if column > 0 {
                let letters = step_back(line, &self.units, column);
                self.go(row, column - letters);
            } else if row > 0 {
                let end = self.line(row - 1).chars().count();
                self.go(row - 1, end);
            }
            return;
        }
        match step_forward(line, &self.units, column) {
            0 if row + 1 < self.area.lines().len() => drop(self.go(row + 1, 0)),
            letters => drop(self.go(row, column + letters)),
        }
    }

    fn delete_back(&mut self) {
        let (row, column) = self.cursor();
        let letters = step_back(self.line(row), &self.units, column);
        match letters {
            0 | 1 => drop(self.area.delete_char()),
            letters => {
                if self.go(row, column - letters) {
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
