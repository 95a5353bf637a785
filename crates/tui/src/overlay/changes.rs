//! Diffs of several files: a list with counts, then each diff.

use protocol::Change;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::content::ViewerLines;
use crate::amount::{count, some};
use crate::text::{clean, diff_lines, fit};
use crate::theme::Theme;

/// Lines added and removed.
pub(super) fn line_counts(changes: &[Change]) -> (u64, u64) {
    let each = changes.iter().map(line_counts_of);
    each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
}

fn line_counts_of(change: &Change) -> (u64, u64) {
    let diff = change.diff.as_deref().unwrap_or_default();
    // File names occur only before the first hunk.
    let mut is_in_hunk = !diff.starts_with("---") && !diff.starts_with("diff ");
    let mut sum = (0, 0);
    for line in diff.lines() {
        match line.as_bytes().first() {
            Some(b'@') => is_in_hunk = true,
            Some(b'+') if is_in_hunk => sum.0 += 1,
            Some(b'-') if is_in_hunk => sum.1 += 1,
            _ => {}
        }
    }
    sum
}

pub(super) fn lay_out(changes: &[Change], left_out: u64, width: u16, theme: &Theme) -> ViewerLines {
    let mut layout = ViewerLines::default();
    let room = usize::from(width);
    if changes.is_empty() && left_out == 0 {
        layout
            .lines
            .push(Line::styled("nothing has changed", theme.dim));
        return layout;
    }
    if changes.len() > 1 || left_out > 0 {
        push_file_list(changes, left_out, room, theme, &mut layout.lines);
    }
    for change in changes {
        if !layout.lines.is_empty() {
            layout.lines.push(Line::default());
        }
        layout.parts.push(layout.lines.len());
        if !change.path.is_empty() {
            layout.lines.push(file_heading(change, room, theme));
        }
        match &change.diff {
            Some(diff) => layout.lines.extend(diff_lines(diff, width, theme)),
            None => layout.lines.push(Line::styled(
                "nothing to show: not text, or too long",
                theme.dim,
            )),
        }
    }
    layout
}

/// One line per file, with the counts in a column.
fn push_file_list(
    changes: &[Change],
    left_out: u64,
    room: usize,
    theme: &Theme,
    lines: &mut Vec<Line<'static>>,
) {
    let names: Vec<String> = changes.iter().map(path).collect();
    let longest = names.iter().map(|name| name.width()).max().unwrap_or(0);
    let column = longest.min(room.saturating_sub(16));
    for (change, name) in changes.iter().zip(names) {
        let name = fit(&name, column);
        let gap = " ".repeat(column.saturating_sub(name.width()) + 2);
        let mut spans = vec![Span::styled(name, theme.text), Span::raw(gap)];
        spans.extend(count_spans(change, theme));
        lines.push(Line::from(spans));
    }
    if left_out > 0 {
        let more = some(left_out, "more file", "more files");
        let words = format!("… {more} changed, not shown");
        lines.push(Line::styled(words, theme.dim));
    }
}

fn file_heading(change: &Change, room: usize, theme: &Theme) -> Line<'static> {
    let name = fit(&path(change), room.saturating_sub(20));
    let mut spans = vec![
        Span::styled("▸ ", theme.dim),
        Span::styled(name, theme.strong),
        Span::raw("  "),
    ];
    spans.extend(count_spans(change, theme));
    Line::from(spans)
}

fn count_spans(change: &Change, theme: &Theme) -> Vec<Span<'static>> {
    if change.diff.is_none() {
        return vec![Span::styled("not text", theme.dim)];
    }
    let (added, removed) = line_counts_of(change);
    vec![
        Span::styled(format!("+{}", count(added)), theme.added),
        Span::raw(" "),
        Span::styled(format!("−{}", count(removed)), theme.removed),
    ]
}

fn path(change: &Change) -> String {
    clean(&change.path).replace(['\n', '\t'], " ")
}

pub(super) fn source(changes: &[Change]) -> String {
    let mut source = String::new();
    for change in changes {
        if let Some(diff) = &change.diff {
            let path = path(change);
            if !path.is_empty() && !diff.starts_with("---") && !diff.starts_with("diff ") {
                source.push_str(&format!("--- {path}\n+++ {path}\n"));
            }
            source.push_str(diff);
            if !diff.ends_with('\n') {
                source.push('\n');
            }
        }
    }
    clean(&source).into_owned()
}
