//! A unified diff in colours.

use ratatui::text::Line;

use super::{clean, wrap_plain};
use crate::theme::Theme;

/// The lines of a diff, wrapped to a width.
pub(crate) fn diff_lines(diff: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    for line in clean(diff).lines() {
        let style = match line.as_bytes().first() {
            Some(b'+') => theme.added,
            Some(b'-') => theme.removed,
            Some(b'@') => theme.hunk,
            _ => theme.dim,
        };
        lines.extend(wrap_plain(line, width, style));
    }
    lines
}
