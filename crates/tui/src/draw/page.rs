//! The transcript and its scroll bar.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::{ScreenAreas, page_width, put, welcome};
use crate::app::TuiApp;

pub(super) fn draw(app: &TuiApp, areas: &ScreenAreas, buffer: &mut Buffer) {
    let page = areas.page;
    let text = Rect {
        width: page_width(page),
        ..page
    };
    let greeting;
    let lines: &[Line<'_>] = if app.transcript.is_empty() {
        greeting = welcome::lines(app, text.width);
        &greeting
    } else {
        app.transcript.visible()
    };
    for (row, line) in (0..page.height).zip(lines) {
        put(line, text, row, buffer);
    }
    if !app.transcript.is_following() && page_width(page) < page.width {
        let position = app.transcript.position();
        let bar = thumb(position.above, position.height, position.total, page.height);
        for row in bar {
            let thumb = Line::styled("▐", app.theme.dim);
            let column = Rect {
                x: page.x + page.width - 1,
                width: 1,
                ..page
            };
            put(&thumb, column, row, buffer);
        }
    }
}

/// The rows of a scroll bar's thumb.
pub(super) fn thumb(above: usize, shown: usize, all: usize, rows: u16) -> std::ops::Range<u16> {
    let rows = usize::from(rows);
    if all <= shown || rows == 0 {
        return 0..0;
    }
    let length = (shown * rows / all).clamp(1, rows);
    let furthest = all - shown;
    let first = above.min(furthest) * (rows - length) / furthest;
    let small = |number: usize| u16::try_from(number).unwrap_or(u16::MAX);
    small(first)..small(first + length)
}
