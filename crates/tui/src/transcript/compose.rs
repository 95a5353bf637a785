//! Turns a line of the page into a line of the screen: adds the margin and highlights the selection
//! and search matches.

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::log::EntryLog;
use super::needle::SearchNeedle;
use super::page_layout::{LinePosition, PageRow, margin_width};
use super::section_layout::entry_sign;
use crate::text::wrap_line;
use crate::theme::Theme;

/// What to highlight.
pub(super) struct RowEmphasis<'a> {
    pub(super) selected: Option<usize>,
    pub(super) needle: Option<&'a SearchNeedle>,
    /// The line of the current match.
    pub(super) found: Option<LinePosition>,
}

pub(super) fn compose_row(
    row: PageRow,
    log: &EntryLog,
    emphasis: &RowEmphasis<'_>,
    width: u16,
    theme: &Theme,
) -> Line<'static> {
    let PageRow {
        place,
        line,
        is_body,
    } = row;
    let mut spans = match place.block {
        0 => Vec::new(),
        _ => margin_spans(log, place, is_body, emphasis.selected, width, theme),
    };
    let base = line.style;
    let mut content: Vec<Span<'static>> = line
        .spans
        .into_iter()
        .map(|span| Span::styled(span.content, base.patch(span.style)))
        .collect();
    if log.is_void(place.entry) {
        for span in &mut content {
            span.style = theme.dim;
        }
    }
    if let Some(needle) = emphasis.needle {
        let style = if emphasis.found == Some(place) {
            theme.found
        } else {
            theme.warn.add_modifier(Modifier::UNDERLINED)
        };
        content = highlight(content, needle, style);
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
    log: &EntryLog,
    place: LinePosition,
    is_body: bool,
    selected: Option<usize>,
    width: u16,
    theme: &Theme,
) -> Vec<Span<'static>> {
    let columns = margin_width(width, is_body);
    if columns == 0 {
        return Vec::new();
    }
    let is_selected = selected == Some(place.entry);
    let is_head = place == LinePosition::head(place.entry);
    let is_open = log.is_open(place.entry);
    let sign = match (is_selected, is_head, log.entry(place.entry)) {
        (true, true, _) if log.opens(place.entry) && is_open => Span::styled("▾", theme.accent),
        (true, true, _) => Span::styled("▸", theme.accent),
        (true, false, _) => Span::styled("│", theme.accent),
        (false, true, Some(entry)) => entry_sign(entry, is_open, theme),
        _ => Span::raw(" "),
    };
    let mut spans = vec![sign, Span::raw(" ")];
    if columns == 4 {
        spans.push(Span::styled("│ ", theme.dim));
    }
    spans
}

/// Styles all matches in a line.
fn highlight(spans: Vec<Span<'static>>, needle: &SearchNeedle, style: Style) -> Vec<Span<'static>> {
    let text: String = spans.iter().map(|span| span.content.as_ref()).collect();
    let mut places = Vec::new();
    let mut from = 0;
    while let Some((start, end)) = needle.find(&text, from) {
        places.push((start, end));
        from = end;
    }
    if places.is_empty() {
        return spans;
    }
    let mut cut = Vec::new();
    let mut offset = 0;
    for span in spans {
        let end = offset + span.content.len();
        // The span is cut at the edges of all matches in it.
        let edges = places.iter().flat_map(|(start, end)| [*start, *end]);
        let mut edges: Vec<usize> = edges.filter(|edge| (offset..end).contains(edge)).collect();
        edges.push(end);
        let mut start = offset;
        for edge in edges.into_iter().filter(|edge| *edge > offset) {
            let is_found = places
                .iter()
                .any(|(from, to)| (*from..*to).contains(&start));
            let piece = span.content[start - offset..edge - offset].to_owned();
            cut.push(if is_found {
                Span::styled(piece, span.style.patch(style))
            } else {
                Span::styled(piece, span.style)
            });
            start = edge;
        }
        offset = end;
    }
    cut
}
