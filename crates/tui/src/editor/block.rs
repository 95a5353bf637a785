//! Opens and closes pasted blocks.

use super::embed::Embed;
use super::{Editor, MAX_EDITABLE_LINES};

impl Editor {
    /// Opens the pasted block at the cursor, or closes the opened block that ends there.
    pub(super) fn toggle_block(&mut self) -> bool {
        let (row, column) = self.cursor();
        let (before, after) = self.line_around_cursor();
        let unit_of = |letter: Option<char>| match self.units.get(letter?)? {
            Embed::Pasted { text, lines, .. } => Some((text.clone(), *lines)),
            Embed::Image(_) => None,
        };
        let left = unit_of(before.chars().next_back());
        let right = unit_of(after.chars().next());
        if let Some((text, lines)) = left.clone().or(right) {
            if lines > MAX_EDITABLE_LINES || self.is_full(text.len()) {
                return true;
            }
            let at = column - usize::from(left.is_some());
            if self.move_to(row, at) {
                self.delete(1);
                self.area.insert_str(&text);
            }
            return true;
        }
        let Some(mark) = self.opened_block() else {
            return false;
        };
        let Some(Embed::Pasted { text, .. }) = self.units.get(mark).cloned() else {
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
        if self.move_to(start_row, start) {
            self.delete(text.chars().count());
            self.area.insert_char(mark);
        }
        true
    }

    /// The opened block whose text ends at the cursor.
    fn opened_block(&self) -> Option<char> {
        let (row, _) = self.cursor();
        let (before, _) = self.line_around_cursor();
        self.units.marks().find(|mark| {
            let Some(Embed::Pasted { text, .. }) = self.units.get(*mark) else {
                return false;
            };
            let mut lines = text.rsplit('\n').enumerate().peekable();
            while let Some((up, line)) = lines.next() {
                let is_first = lines.peek().is_none();
                let Some(at) = row.checked_sub(up) else {
                    return false;
                };
                let written = if up == 0 { before } else { self.line(at) };
                let fits = if is_first {
                    written.ends_with(line)
                } else {
                    written == line
                };
                if !fits {
                    return false;
                }
            }
            true
        })
    }
}
