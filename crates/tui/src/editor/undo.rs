//! Undo by words, on top of a text area that records single characters.

use ratatui_textarea::TextArea;

/// Undoes or redoes one word of typed characters, or one other change.
pub(super) fn undo_by_word(
    area: &mut TextArea<'static>,
    step: fn(&mut TextArea<'static>) -> bool,
    back: fn(&mut TextArea<'static>) -> bool,
) {
    let mut before = char_count(area);
    // Whether the characters so far were added or removed.
    let mut direction = None;
    loop {
        let is_word_start = is_after_space(area);
        if !step(area) {
            return;
        }
        let after = char_count(area);
        let is_one_char = after.abs_diff(before) == 1;
        let grows = after > before;
        if let Some(direction) = direction
            && (!is_one_char || direction != grows || is_word_start)
        {
            // The next undo takes this step.
            back(area);
            return;
        }
        if !is_one_char {
            return;
        }
        direction = Some(grows);
        before = after;
    }
}

/// Number of characters, counting line ends.
fn char_count(area: &TextArea<'_>) -> usize {
    let lines = area.lines().iter();
    lines.map(|line| line.chars().count() + 1).sum()
}

/// Whether the cursor is after whitespace or at the start of a line.
fn is_after_space(area: &TextArea<'_>) -> bool {
    let cursor = area.cursor();
    let line = area.lines().get(cursor.0);
    let before = line.and_then(|line| line.chars().nth(cursor.1.checked_sub(1)?));
    before.is_none_or(char::is_whitespace)
}
