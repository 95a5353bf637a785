//! Draws the open question.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;

use super::{areas, put};
use crate::app::TuiApp;

pub(super) fn draw(app: &TuiApp, area: Rect, buffer: &mut Buffer) {
    let panel = areas::panel(app, area.height);
    for (row, line) in (0..area.height).zip(&panel.lines) {
        put(line, area, row, buffer);
    }
}
