//! What a key does to the text and the cursor.

use ratatui_textarea::TextArea;

use super::layout::{step_back, step_forward};
use super::unit::{Unit, is_mark};
use super::{Editor, LINES, text_width};

/// A change of the text, or of the cursor's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    NewLine,
    Back,
    Forward,
    WordBack,
    WordForward,
    LineStart,
    /// Opens or closes a pasted block beside the cursor; without one, to the end of the line.
    LineEnd,
    TextStart,
    TextEnd,
    DeleteBack,
    DeleteForward,
    DeleteWordBack,
    DeleteWordForward,
    DeleteToStart,
    DeleteToEnd,
    /// Puts back what was deleted last by more than a letter.
    Yank,
    Undo,
    Redo,
}

impl Editor {
    /// A letter that was typed.
    pub(crate) fn type_letter(&mut self, letter: char) {
        let letter = match letter {
            letter if is_mark(letter) => '\u{fffd}',
            letter => letter,
        };
        if super::paste::normal(letter.encode_utf8(&mut [0; 4])).is_empty() {
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
            Change::WordBack => self.move_by_word(ratatui_textarea::CursorMove::WordBack),
            Change::WordForward => self.move_by_word(ratatui_textarea::CursorMove::WordForward),
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
                    // The end of the line, unless it is the last one.
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
            Change::DeleteToEnd => match column < self.line(row).chars().count() {
                true => drop(self.area.delete_line_by_end()),
                false => self.change(Change::DeleteForward),
            },
            Change::Yank => drop(self.area.paste()),
            Change::Undo => by_words(&mut self.area, TextArea::undo, TextArea::redo),
            Change::Redo => by_words(&mut self.area, TextArea::redo, TextArea::undo),
        }
    }

    /// Up or down by a row of the screen. False at the first and the last.
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

    /// What was said before this, in the place of what is written.
    pub(crate) fn older(&mut self) -> bool {
        let written = super::Draft {
            text: self.area.lines().join("\n"),
            units: self.units.clone(),
        };
        let Some(draft) = self.history.older(|| written).cloned() else {
            return false;
        };
        self.show(draft);
        true
    }

    /// What was said after this, and at last what was being written.
    pub(crate) fn newer(&mut self) -> bool {
        let Some(draft) = self.history.newer() else {
            return false;
        };
        self.show(draft);
        true
    }

    /// Puts it there without leaving the place in the history.
    fn show(&mut self, draft: super::Draft) {
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

    fn move_by_word(&mut self, by: ratatui_textarea::CursorMove) {
        self.area.move_cursor(by);
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

    /// Letters after the cursor; what was yanked stays.
    fn delete(&mut self, letters: usize) {
        let yanked = self.area.yank_text();
        self.area.delete_str(letters);
        self.area.set_yank_text(yanked);
    }

    /// Opens the pasted block at the cursor, or closes the one that was opened and ends there.
    fn toggle_block(&mut self) -> bool {
        let (row, column) = self.cursor();
        let (before, after) = self.around();
        let unit_of = |letter: Option<char>| match self.units.get(letter?)? {
            Unit::Pasted { text, lines, .. } => Some((text.clone(), *lines)),
            Unit::Image(_) => None,
        };
        let left = unit_of(before.chars().next_back());
        let right = unit_of(after.chars().next());
        if let Some((text, lines)) = left.clone().or(right) {
            if lines > LINES || self.is_full(text.len()) {
                return true;
            }
            let at = column - usize::from(left.is_some());
            if self.go(row, at) {
                self.delete(1);
                self.area.insert_str(&text);
            }
            return true;
        }
        let Some(mark) = self.opened() else {
            return false;
        };
        let Some(Unit::Pasted { text, .. }) = self.units.get(mark).cloned() else {
            return false;
        };
        let rows = text.matches('\n').count();
        let start_row = row - rows;
        let tail = text.rsplit('\n').next().unwrap_or_default().chars().count();
        let start = match rows {
            0 => column - tail,
            _ => {
                let head = text.split('\n').next().unwrap_or_default().chars().count();
                self.line(start_row).chars().count() - head
            }
        };
        if self.go(start_row, start) {
            self.delete(text.chars().count());
            self.area.insert_char(mark);
        }
        true
    }

    /// The block whose text, in full, ends at the cursor.
    fn opened(&self) -> Option<char> {
        let (row, _) = self.cursor();
        let (before, _) = self.around();
        self.units.marks().find(|mark| {
            let Some(Unit::Pasted { text, .. }) = self.units.get(*mark) else {
                return false;
            };
            let mut lines = text.rsplit('\n').enumerate().peekable();
            while let Some((up, line)) = lines.next() {
                let is_first = lines.peek().is_none();
                let Some(at) = row.checked_sub(up) else {
                    return false;
                };
                let written = if up == 0 { before } else { self.line(at) };
                let fits = match is_first {
                    true => written.ends_with(line),
                    false => written == line,
                };
                if !fits {
                    return false;
                }
            }
            true
        })
    }
}

/// Takes back, or does again, one word of typed letters, or one other change.
fn by_words(
    area: &mut TextArea<'static>,
    step: fn(&mut TextArea<'static>) -> bool,
    back: fn(&mut TextArea<'static>) -> bool,
) {
    let letters = |area: &TextArea<'_>| -> usize {
        let lines = area.lines();
        lines.iter().map(|line| line.chars().count()).sum::<usize>() + lines.len()
    };
    let mut before = letters(area);
    let mut way = None;
    loop {
        let is_at_space = at_space(area);
        if !step(area) {
            return;
        }
        let after = letters(area);
        let change = after.abs_diff(before);
        let grows = after > before;
        if change != 1 {
            // Another kind of change: it stays for the next time, unless it came first.
            if way.is_some() {
                back(area);
            }
            return;
        }
        if way.is_some_and(|way| way != grows) || way.is_some() && is_at_space {
            back(area);
            return;
        }
        way = Some(grows);
        before = after;
    }
}

/// Between words.
fn at_space(area: &TextArea<'_>) -> bool {
    let cursor = area.cursor();
    let line = area.lines().get(cursor.0);
    let letter = line.and_then(|line| line.chars().nth(cursor.1.checked_sub(1)?));
    letter.is_none_or(char::is_whitespace)
}
