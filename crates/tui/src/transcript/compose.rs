//! Turns a line of the page into a line of the screen: adds the margin and highlights the selection
//! and search matches.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};
use regex::Regex;

use super::log::EntryLog;
use super::page_layout::{LinePosition, PageRow};
use super::section_layout::entry_sign;
use crate::text::wrap_line;
use crate::theme::Theme;

/// What to highlight.
pub(super) struct RowEmphasis<'a> {
    pub(super) selected: Option<usize>,
    pub(super) query: Option<&'a Regex>,
    /// The line of the current match.
    pub(super) match_line: Option<LinePosition>,
}

pub(super) fn compose_row(
    row: PageRow,
    log: &EntryLog,
    emphasis: &RowEmphasis<'_>,
    width: u16,
    theme: &Theme,
) -> Line<'static> {
    let position = row.position;
    let mut spans = margin_spans(&row, log, emphasis.selected, theme);
    let base = row.line.style;
    let mut content = row.line.spans;
    for span in &mut content {
        span.style = if log.is_void(position.entry) {
            theme.dim
        } else {
            base.patch(span.style)
        };
    }
    if let Some(query) = emphasis.query {
        let style = if emphasis.match_line == Some(position) {
            theme.current_match
        } else {
            theme.warn.add_modifier(Modifier::UNDERLINED)
        };
        content = highlight(content, query, style);
    }
    spans.append(&mut content);
    let line = Line::from(spans);
    if line.width() > usize::from(width) {
        wrap_line(&line, width, "").swap_remove(0)
    } else {
        line
    }
}

/// The margin: the sign of the entry, and a rule beside its body.
fn margin_spans(
    row: &PageRow,
    log: &EntryLog,
    selected: Option<usize>,
    theme: &Theme,
) -> Vec<Span<'static>> {
    if row.margin == 0 {
        return Vec::new();
    }
    let index = row.position.entry;
    let is_head = row.position == LinePosition::head(index);
    let is_open = log.is_open(index);
    let sign = match (selected == Some(index), is_head, log.entry(index)) {
        (true, true, _) if log.opens(index) && is_open => Span::styled("▾", theme.accent),
        (true, true, _) => Span::styled("▸", theme.accent),
        (true, false, _) => Span::styled("│", theme.accent),
        (false, true, Some(entry)) => entry_sign(entry, is_open, theme),
        _ => Span::raw(" "),
    };
    let mut spans = vec![sign, Span::raw(" ")];
    if row.margin == 4 {
        spans.push(Span::styled("│ ", theme.dim));
    }
    spans
}

/// Styles all matches in a line.
fn highlight(spans: Vec<Span<'static>>, query: &Regex, style: Style) -> Vec<Span<'static>> {
    let text: String = spans.iter().map(|span| span.content.as_ref()).collect();
    let matches: Vec<_> = query.find_iter(&text).map(|found| found.range()).collect();
    if matches.is_empty() {
        return spans;
    }
    let mut cut = Vec::new();
    let mut offset = 0;
    for span in spans {
        let end = offset + span.content.len();
        // The span is cut at the edges of all matches in it.
        let edges = matches.iter().flat_map(|found| [found.start, found.end]);
        let edges = edges.filter(|edge| (offset + 1..end).contains(edge));
        let mut start = offset;
        for edge in edges.chain([end]) {
            let text = span.content[start - offset..edge - offset].to_owned();
            let is_match = matches.iter().any(|found| found.contains(&start));
            let style = if is_match {
                span.style.patch(style)
            } else {
                span.style
            };
            cut.push(Span::styled(text, style));
            start = edge;
        }
        offset = end;
    }
    cut
}
