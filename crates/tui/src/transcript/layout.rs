//! Entries become lines, for those that are in view.

use ratatui::text::Line;

use super::entry::Entry;
use super::view::View;
use crate::text::wrap_plain;
use crate::theme::Theme;

/// The lines that fill the height, or fewer.
pub(super) fn visible(
    entries: &[Entry],
    _view: &mut View,
    width: u16,
    height: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for entry in entries.iter().rev() {
        let mut laid = lines_of(entry, width, theme);
        laid.append(&mut lines);
        lines = laid;
        if lines.len() >= usize::from(height) {
            break;
        }
    }
    lines.split_off(lines.len().saturating_sub(usize::from(height)))
}

fn lines_of(entry: &Entry, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    match entry {
        Entry::Prompt { text, .. } => wrap_plain(&format!("> {text}"), width, theme.person),
        Entry::Words { markdown } => markdown.lines(width, theme),
        Entry::Thinking { text } => wrap_plain(text, width, theme.dim),
        Entry::Call(call) => wrap_plain(&format!("● {}", call.summary), width, theme.text),
        Entry::Note { text, .. } => wrap_plain(text, width, theme.dim),
    }
}
