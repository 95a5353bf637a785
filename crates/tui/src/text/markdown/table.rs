//! Lays out tables: columns at their full width, or narrower with wrapped cells, or, if even that
//! does not fit, lists of names and values.

use pulldown_cmark::Alignment;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};

use super::super::wrap::{columns, wrap_words};
use crate::theme::Theme;

/// If a wider column would get less than this, the table is shown as a list.
const MIN_COLUMN_WIDTH: usize = 6;
const COLUMN_SEPARATOR: &str = " │ ";
const COLUMN_SEPARATOR_WIDTH: usize = 3;

/// The lines of a cell, before they are wrapped.
pub(super) type CellLines = Vec<Vec<Span<'static>>>;

#[derive(Debug, Default)]
pub(super) struct MarkdownTable {
    pub(super) alignments: Vec<Alignment>,
    pub(super) head: Vec<CellLines>,
    pub(super) rows: Vec<Vec<CellLines>>,
}

impl MarkdownTable {
    pub(super) fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        match self.widths(usize::from(width)) {
            Some(widths) => self.grid(&widths, theme),
            None => self.list(width),
        }
    }

    /// The width of each column, if all of them fit.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let count = self.head.len();
        let mut needed = vec![1; count];
        for row in std::iter::once(&self.head).chain(&self.rows) {
            for (needed, cell) in needed.iter_mut().zip(row) {
                *needed = cell
                    .iter()
                    .map(|line| span_columns(line))
                    .fold(*needed, usize::max);
            }
        }
        let room = width.checked_sub(COLUMN_SEPARATOR_WIDTH * count.saturating_sub(1))?;
        if needed.iter().sum::<usize>() <= room {
            return Some(needed);
        }
        let most = max_column_width(&needed, room);
        let is_hopeless = most < MIN_COLUMN_WIDTH;
        let mut widths: Vec<usize> = needed.iter().map(|needed| (*needed).min(most)).collect();
        let mut left = room.saturating_sub(widths.iter().sum());
        for (width, needed) in widths.iter_mut().zip(&needed) {
            if *width < *needed && left > 0 {
                *width += 1;
                left -= 1;
            }
        }
        (!is_hopeless).then_some(widths)
    }

    fn grid(&self, widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let rule = widths
            .iter()
            .map(|width| "─".repeat(*width))
            .collect::<Vec<_>>()
            .join("─┼─");
        let rule = Line::styled(rule, theme.border);
        let rows: Vec<_> = self
            .rows
            .iter()
            .map(|row| self.row(row, widths, theme))
            .collect();
        // Rows of several lines are separated by rules.
        let is_ruled = rows.iter().any(|row| row.len() > 1);
        let mut lines = self.row(&bold_cells(&self.head), widths, theme);
        lines.push(rule.clone());
        for (index, row) in rows.into_iter().enumerate() {
            if index > 0 && is_ruled {
                lines.push(rule.clone());
            }
            lines.extend(row);
        }
        lines
    }

    fn row(&self, row: &[CellLines], widths: &[usize], theme: &Theme) -> Vec<Line<'static>> {
        let cells: Vec<Vec<Line<'static>>> = widths
            .iter()
            .enumerate()
            .map(|(index, width)| wrap_cell(row.get(index), *width))
            .collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        (0..height)
            .map(|at| {
                let mut spans = Vec::new();
                for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    if index > 0 {
                        spans.push(Span::styled(COLUMN_SEPARATOR, theme.border));
                    }
                    let line = cell.get(at).map_or(&[][..], |line| &line.spans);
                    let is_last = index + 1 == widths.len();
                    self.align(index, line, *width, is_last, &mut spans);
                }
                Line::from(spans)
            })
            .collect()
    }

    fn align(
        &self,
        index: usize,
        line: &[Span<'static>],
        width: usize,
        is_last: bool,
        spans: &mut Vec<Span<'static>>,
    ) {
        let empty = width.saturating_sub(span_columns(line));
        let before = match self.alignments.get(index) {
            Some(Alignment::Right) => empty,
            Some(Alignment::Center) => empty / 2,
            _ => 0,
        };
        let after = if is_last { 0 } else { empty - before };
        if before > 0 {
            spans.push(Span::raw(" ".repeat(before)));
        }
        spans.extend(line.iter().cloned());
        if after > 0 {
            spans.push(Span::raw(" ".repeat(after)));
        }
    }

    /// Each row as lines of `name: value`.
    fn list(&self, width: u16) -> Vec<Line<'static>> {
        let head = bold_cells(&self.head);
        let mut lines = Vec::new();
        if self.rows.is_empty() {
            for name in &head {
                lines.extend(wrap_words(&Line::from(joined(name)), width, "  "));
            }
        }
        for (index, row) in self.rows.iter().enumerate() {
            if index > 0 {
                lines.push(Line::default());
            }
            for (column, cell) in row.iter().enumerate() {
                let mut spans = head
                    .get(column)
                    .map(|name| joined(name))
                    .unwrap_or_default();
                if !spans.is_empty() {
                    spans.push(Span::raw(": "));
                }
                spans.extend(joined(cell));
                lines.extend(wrap_words(&Line::from(spans), width, "  "));
            }
        }
        lines
    }
}

/// The largest limit on the column width with which all columns fit.
fn max_column_width(needed: &[usize], room: usize) -> usize {
    let mut sorted = needed.to_vec();
    sorted.sort_unstable();
    let mut left = room;
    for (index, needed) in sorted.iter().enumerate() {
        let share = left / (sorted.len() - index);
        if *needed > share {
            return share;
        }
        left -= needed;
    }
    sorted.last().copied().unwrap_or(0)
}

fn wrap_cell(cell: Option<&CellLines>, width: usize) -> Vec<Line<'static>> {
    let width = u16::try_from(width).unwrap_or(u16::MAX);
    cell.into_iter()
        .flatten()
        .flat_map(|line| wrap_words(&Line::from(line.clone()), width, ""))
        .collect()
}

fn span_columns(spans: &[Span<'_>]) -> usize {
    spans.iter().map(|span| columns(&span.content)).sum()
}

fn bold_cells(row: &[CellLines]) -> Vec<CellLines> {
    let mut row = row.to_vec();
    for span in row.iter_mut().flatten().flatten() {
        span.style = span.style.add_modifier(Modifier::BOLD);
    }
    row
}

/// Joins the lines of a cell.
fn joined(cell: &CellLines) -> Vec<Span<'static>> {
    let mut spans = Vec::new();
    for line in cell {
        if !spans.is_empty() {
            spans.push(Span::raw(" "));
        }
        spans.extend(line.iter().cloned());
    }
    spans
}
