//! Undo by words, on top of a text area that records single characters.

use ratatui_textarea::TextArea;

/// Undoes or redoes one word of typed characters, or one other change.
pub(super) fn undo_by_word(
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
        let is_at_space = is_after_space(area);
        if !step(area) {
            return;
        }
        let after = letters(area);
        let change = after.abs_diff(before);
        let grows = after > before;
        if change != 1 {
            // Another kind of change: leave it for the next undo, unless it came first.
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

/// Whether the cursor is after whitespace or at the start of a line.
fn is_after_space(area: &TextArea<'_>) -> bool {
    let cursor = area.cursor();
    let line = area.lines().get(cursor.0);
    let letter = line.and_then(|line| line.chars().nth(cursor.1.checked_sub(1)?));
    letter.is_none_or(char::is_whitespace)
}
