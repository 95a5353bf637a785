//! The editor between two rules, and the completions above it.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use unicode_width::UnicodeWidthStr;

use super::areas::PROMPT_WIDTH;
use super::{ScreenAreas, put};
use crate::amount::some;
use crate::app::{AppFocus, TuiApp};
use crate::editor::{Completion, CompletionRow};
use crate::text::{clean, fit};

/// Completion rows visible at once.
const MAX_SHOWN_COMPLETIONS: u16 = 8;

/// Returns the cursor position if the editor has the focus.
pub(super) fn draw(app: &TuiApp, areas: &ScreenAreas, buffer: &mut Buffer) -> Option<Position> {
    let (area, text) = (areas.editor, areas.text);
    if area.is_empty() {
        return None;
    }
    let theme = &app.theme;
    let view = app.editor.view();
    if text.y > area.y {
        let rule = |more: usize, arrow: &str| {
            let caption = match more {
                0 => String::new(),
                more => format!(" {arrow} {} ", some(more as u64, "line", "lines")),
            };
            let left = usize::from(area.width).saturating_sub(caption.width() + 2);
            let rule = format!("{}{caption}──", "─".repeat(left));
            Line::styled(rule, theme.border)
        };
        put(&rule(view.above, "↑"), area, 0, buffer);
        put(&rule(view.below, "↓"), area, area.height - 1, buffer);
    }
    let is_here = app.focus == AppFocus::Editor;
    let mark = Rect {
        y: text.y,
        height: text.height,
        width: PROMPT_WIDTH.min(area.width),
        ..area
    };
    let style = if is_here { theme.accent } else { theme.dim };
    put(&Line::styled(">", style), mark, 0, buffer);
    for (row, pieces) in (0..text.height).zip(&view.rows) {
        let spans = pieces.iter().map(|piece| {
            let style = if piece.is_embed {
                theme.code
            } else {
                theme.text
            };
            Span::styled(clean(&piece.text).into_owned(), style)
        });
        put(&Line::from(spans.collect::<Vec<_>>()), text, row, buffer);
    }
    if app.editor.is_empty() {
        let caption = fit(placeholder(app), usize::from(text.width));
        put(&Line::styled(caption, theme.dim), text, 0, buffer);
    }
    let (column, row) = view.cursor;
    let cursor = Position::new(
        text.x
            .saturating_add(column)
            .min(text.right().saturating_sub(1)),
        text.y
            .saturating_add(row)
            .min(text.bottom().saturating_sub(1)),
    );
    is_here.then_some(cursor)
}

fn placeholder(app: &TuiApp) -> &'static str {
    match () {
        () if app.focus == AppFocus::Browse => "type to write",
        () if app.is_busy() => "write the next message: it is sent when this turn is done",
        () if app.transcript.is_empty() => "what do you want done?",
        () => "",
    }
}

/// Draws over the page, directly above the editor.
pub(super) fn draw_completion(app: &TuiApp, areas: &ScreenAreas, buffer: &mut Buffer) {
    let Some(completion) = app.completion().filter(|shown| !shown.rows.is_empty()) else {
        return;
    };
    let rows = u16::try_from(completion.rows.len()).unwrap_or(u16::MAX);
    let height = rows.min(MAX_SHOWN_COMPLETIONS).min(areas.editor.y);
    let area = Rect {
        y: areas.editor.y - height,
        height,
        ..areas.editor
    };
    Clear.render(area.intersection(*buffer.area()), buffer);
    let first = first_row(completion, usize::from(height));
    let label = completion.rows.iter().map(|row| row.label.width()).max();
    let column = label.unwrap_or(0).min(usize::from(area.width) * 3 / 5);
    let shown = completion.rows.iter().enumerate().skip(first);
    for (row, (index, item)) in (0..height).zip(shown) {
        let is_chosen = index == completion.selected;
        let line = completion_line(app, item, is_chosen, column, usize::from(area.width));
        put(&line, area, row, buffer);
    }
}

fn first_row(completion: &Completion, height: usize) -> usize {
    let last = completion.rows.len().saturating_sub(height);
    completion.selected.saturating_sub(height / 2).min(last)
}

fn completion_line(
    app: &TuiApp,
    row: &CompletionRow,
    is_chosen: bool,
    column: usize,
    width: usize,
) -> Line<'static> {
    let theme = &app.theme;
    let mark = if is_chosen { "▸ " } else { "  " };
    let mut spans = vec![Span::styled(mark, theme.accent)];
    let label = clean(&row.label);
    let shown = fit(&label, column);
    for (index, character) in shown.chars().enumerate() {
        let is_matched = u32::try_from(index).is_ok_and(|index| row.matched.contains(&index));
        let style = match (is_matched, is_chosen) {
            (true, _) => theme.accent,
            (false, true) => theme.strong,
            (false, false) => theme.text,
        };
        spans.push(Span::styled(character.to_string(), style));
    }
    spans.push(Span::raw(
        " ".repeat(column.saturating_sub(shown.width()) + 2),
    ));
    let about = clean(&row.description).replace(['\n', '\t'], " ");
    let room = width.saturating_sub(column + 4);
    spans.push(Span::styled(fit(&about, room), theme.dim));
    Line::from(spans)
}
