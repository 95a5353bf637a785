//! Edits and cursor movements.

use ratatui_textarea::{CursorMove, TextArea};

use super::embed::is_embed_char;
use super::layout::graphemes;
use super::undo::undo_by_word;
use super::{Editor, MessageDraft};

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
    pub(crate) fn type_char(&mut self, character: char) {
        if character.is_control() && character != '\t' {
            return;
        }
        self.start_change();
        self.area.insert_char(if is_embed_char(character) {
            '\u{fffd}'
        } else {
            character
        });
    }

    pub(crate) fn change(&mut self, change: EditCommand) {
        self.start_change();
        let (row, column) = self.cursor();
        match change {
            EditCommand::NewLine => self.area.insert_newline(),
            EditCommand::Back => match self.chars_before() {
                0 if row > 0 => drop(self.move_to_end(row - 1)),
                chars => drop(self.move_to(row, column - chars)),
            },
            EditCommand::Forward => match self.chars_after() {
                0 => self.area.move_cursor(CursorMove::Forward),
                chars => drop(self.move_to(row, column + chars)),
            },
            EditCommand::WordBack => self.area.move_cursor(CursorMove::WordBack),
            EditCommand::WordForward => self.area.move_cursor(CursorMove::WordForward),
            EditCommand::LineStart => drop(self.move_to(row, 0)),
            EditCommand::LineEnd => {
                if !self.toggle_block() {
                    self.move_to_end(row);
                }
            }
            EditCommand::TextStart => drop(self.move_to(0, 0)),
            EditCommand::TextEnd => drop(self.move_to_end(self.area.lines().len() - 1)),
            EditCommand::DeleteBack => match self.chars_before() {
                0 | 1 => drop(self.area.delete_char()),
                chars => {
                    if self.move_to(row, column - chars) {
                        self.delete(chars);
                    }
                }
            },
            EditCommand::DeleteForward => match self.chars_after() {
                // At the end of a line: join it with the next one.
                0 => drop(self.area.delete_next_char()),
                chars => self.delete(chars),
            },
            EditCommand::DeleteWordBack => drop(self.area.delete_word()),
            EditCommand::DeleteWordForward => drop(self.area.delete_next_word()),
            EditCommand::DeleteToStart => drop(self.area.delete_line_by_head()),
            EditCommand::DeleteToEnd => drop(self.area.delete_line_by_end()),
            EditCommand::Yank => drop(self.area.paste()),
            EditCommand::Undo => undo_by_word(&mut self.area, TextArea::undo, TextArea::redo),
            EditCommand::Redo => undo_by_word(&mut self.area, TextArea::redo, TextArea::undo),
        }
    }

    /// Called before every change of the text, and before most movements of the cursor.
    pub(super) fn start_change(&mut self) {
        self.goal_column = None;
        self.history.leave();
    }

    /// Moves up or down by a screen row. Returns false at the first and the last row.
    pub(crate) fn move_row(&mut self, rows: isize) -> bool {
        let layout = self.layout(self.width);
        let (row, column) = layout.position_of(self.cursor());
        let Some(row) = row.checked_add_signed(rows) else {
            return false;
        };
        let goal = self.goal_column.unwrap_or(column);
        let Some((line, character)) = layout.character_at(row, goal) else {
            return false;
        };
        self.goal_column = Some(goal);
        self.history.leave();
        self.move_to(line, character);
        true
    }

    /// Shows the previous message of the history.
    pub(crate) fn older(&mut self) -> bool {
        let unsent = self.draft();
        let draft = self.history.older(unsent);
        self.show_history_entry(draft)
    }

    /// Shows the next message of the history, and after the newest one the unsent draft.
    pub(crate) fn newer(&mut self) -> bool {
        let draft = self.history.newer();
        self.show_history_entry(draft)
    }

    /// Replaces the text and keeps the position in the history.
    fn show_history_entry(&mut self, draft: Option<MessageDraft>) -> bool {
        let Some(draft) = draft else {
            return false;
        };
        let history = std::mem::take(&mut self.history);
        self.set(draft);
        self.history = history;
        true
    }

    /// Number of characters of the grapheme before the cursor; 0 at the start of a line.
    fn chars_before(&self) -> usize {
        let (before, _) = self.line_around_cursor();
        let grapheme = graphemes(before).next_back();
        grapheme.map_or(0, |grapheme| grapheme.chars().count())
    }

    /// Number of characters of the grapheme after the cursor; 0 at the end of a line.
    fn chars_after(&self) -> usize {
        let (_, after) = self.line_around_cursor();
        let grapheme = graphemes(after).next();
        grapheme.map_or(0, |grapheme| grapheme.chars().count())
    }

    fn move_to_end(&mut self, row: usize) -> bool {
        let line = self.area.lines().get(row).map_or("", String::as_str);
        self.move_to(row, line.chars().count())
    }

    /// Deletes characters after the cursor; keeps the yank buffer.
    pub(super) fn delete(&mut self, chars: usize) {
        let yanked = self.area.yank_text();
        self.area.delete_str(chars);
        self.area.set_yank_text(yanked);
    }
}
