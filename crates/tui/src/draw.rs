//! Paints the state. Never changes it: the same state gives the same picture.
//!
//! [`screen_areas()`] says where everything goes; each part of the screen has its own file.

mod activity;
mod areas;
mod editor;
mod lists;
mod page;
mod picker;
mod question;
mod status;
#[cfg(test)]
mod tests;
mod viewer;
mod welcome;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::Line;

pub(crate) use self::areas::{ScreenAreas, page_width, screen_areas};
pub(crate) use self::picker::panes;
pub(crate) use self::viewer::body;
use crate::app::TuiApp;
use crate::overlay::Overlay;

pub(crate) fn draw(app: &TuiApp, frame: &mut Frame<'_>) {
    // The terminal may have been resized since the layout: never draw outside of it.
    let areas = &app.areas;
    let buffer = frame.buffer_mut();
    let cursor = match &app.overlay {
        None => {
            page::draw(app, areas, buffer);
            activity::draw_queue(app, areas.queue, buffer);
            let searching = activity::draw(app, areas.line, buffer);
            question::draw(app, areas.question, buffer);
            let writing = editor::draw(app, areas, buffer);
            editor::draw_completion(app, areas, buffer);
            searching.or(writing)
        }
        Some(overlay) => draw_overlay(overlay, app, areas.overlay_area, buffer),
    };
    status::draw(app, areas.status, buffer);
    if let Some(cursor) = cursor.filter(|cursor| frame.area().contains(*cursor)) {
        frame.set_cursor_position(cursor);
    }
}

fn draw_overlay(
    overlay: &Overlay,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    match overlay {
        Overlay::Viewer(viewer) => viewer::draw(viewer, app, area, buffer),
        Overlay::Sessions(sessions) => lists::draw_sessions(sessions, app, area, buffer),
        Overlay::Jobs(jobs) => lists::draw_jobs(jobs, app, area, buffer),
        Overlay::Models(models) => lists::draw_models(models, app, area, buffer),
    }
}

/// Draws a line on a row of an area, cut at the right edge.
fn put(line: &Line<'_>, area: Rect, row: u16, buffer: &mut Buffer) {
    let area = area.intersection(*buffer.area());
    if row < area.height {
        buffer.set_line(area.x, area.y + row, line, area.width);
    }
}
