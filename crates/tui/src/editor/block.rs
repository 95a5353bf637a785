//! Opens and closes pasted blocks.

use std::sync::Arc;

use super::embed::Embed;
use super::{Editor, MAX_EDITABLE_LINES};

impl Editor {
    /// Opens the pasted block at the cursor, or closes the opened block that ends there. Returns
    /// false if there is none.
    pub(super) fn toggle_block(&mut self) -> bool {
        let (row, column) = self.cursor();
        let (before, after) = self.line_around_cursor();
        let block_of = |character: Option<char>| match self.embeds.get(character?)? {
            Embed::Pasted { text, lines, .. } => Some((Arc::clone(text), *lines)),
            Embed::Image(_) => None,
        };
        let left = block_of(before.chars().next_back()).map(|block| (block, column - 1));
        let right = || block_of(after.chars().next()).map(|block| (block, column));
        if let Some(((text, lines), start)) = left.or_else(right) {
            let is_editable = lines <= MAX_EDITABLE_LINES && !self.is_full(text.len());
            if is_editable && self.move_to(row, start) {
                self.delete(1);
                self.area.insert_str(&text);
            }
            return true;
        }
        self.close_block()
    }

    /// Replaces the text before the cursor with the newest block that has this text.
    fn close_block(&mut self) -> bool {
        let (row, _) = self.cursor();
        let mut written = self.area.lines()[..row].join("\n");
        if row > 0 {
            written.push('\n');
        }
        written.push_str(self.line_around_cursor().0);
        let block = self
            .embeds
            .iter()
            .rev()
            .find_map(|(mark, embed)| match embed {
                Embed::Pasted { text, .. } => Some((mark, text, written.strip_suffix(&**text)?)),
                Embed::Image(_) => None,
            });
        let Some((mark, text, prefix)) = block else {
            return false;
        };
        let length = text.chars().count();
        let start_row = prefix.matches('\n').count();
        let last_line = prefix.rsplit('\n').next().unwrap_or_default();
        if self.move_to(start_row, last_line.chars().count()) {
            self.delete(length);
            self.area.insert_char(mark);
        }
        true
    }
}
