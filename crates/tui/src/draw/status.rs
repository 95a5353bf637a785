//! Draws the status lines at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::app::{App, Focus};
use crate::status::{Part, bar};
use crate::text::fit;

/// Minimum screen height for two status lines.
const ROOMY: u16 = 20;

pub(super) fn height(app: &App) -> u16 {
    u16::try_from(bar_of(app).len()).unwrap_or(1).max(1)
}

pub(super) fn draw(app: &App, area: Rect, buffer: &mut Buffer) {
    let mut lines = bar_of(app);
    if let Some(hint) = app.hint()
        && let Some(first) = lines.first_mut()
    {
        *first = Line::styled(fit(hint, usize::from(area.width)), app.theme.strong);
    }
    for (row, line) in (0..area.height).zip(&lines) {
        put(line, area, row, buffer);
    }
}

fn bar_of(app: &App) -> Vec<Line<'static>> {
    let most = if app.height >= ROOMY { 2 } else { 1 };
    bar(&app.status, more(app), app.width, most, &app.theme)
}

/// Parts from the rest of the UI.
fn more(app: &App) -> Vec<Part> {
    let mut parts = Vec::new();
    if app.questions.is_hidden() {
        let waits = match app.questions.len() {
            1 => "a question waits".to_owned(),
            more => format!("{more} questions wait"),
        };
        let how = if app.overlay.is_some() {
            "esc"
        } else {
            "make the window larger"
        };
        let style = app.theme.warn.patch(app.theme.strong);
        parts.push(Part::new(0, style, format!("{waits}: {how}")).or(waits));
    }
    if !app.transcript.is_following() && app.overlay.is_none() {
        let words = if app.transcript.new_below() {
            "↓ new below"
        } else {
            "↑ scrolled"
        };
        parts.push(Part::new(1, app.theme.accent, words));
    }
    let is_said_above = matches!(app.focus, Focus::Search { .. });
    if let Some((at, all)) = app.transcript.match_position()
        && all > 0
        && !is_said_above
    {
        let words = format!("place {at} of {all}");
        parts.push(Part::new(3, app.theme.accent, words));
    }
    parts
}
