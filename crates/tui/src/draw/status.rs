//! Draws the status lines at the bottom.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;

use super::put;
use crate::app::{AppFocus, TuiApp};
use crate::status::{StatusPart, status_bar};
use crate::text::fit;

/// Minimum screen height for two status lines.
const MIN_HEIGHT_FOR_TWO_LINES: u16 = 20;

pub(super) fn height(app: &TuiApp) -> u16 {
    u16::try_from(status_lines(app).len()).unwrap_or(1).max(1)
}

pub(super) fn draw(app: &TuiApp, area: Rect, buffer: &mut Buffer) {
    let mut lines = status_lines(app);
    if let Some(hint) = app.hint()
        && let Some(first) = lines.first_mut()
    {
        *first = Line::styled(fit(hint, usize::from(area.width)), app.theme.strong);
    }
    for (row, line) in (0..area.height).zip(&lines) {
        put(line, area, row, buffer);
    }
}

fn status_lines(app: &TuiApp) -> Vec<Line<'static>> {
    let most = if app.height >= MIN_HEIGHT_FOR_TWO_LINES {
        2
    } else {
        1
    };
    status_bar(&app.status, extra_parts(app), app.width, most, &app.theme)
}

/// Parts from the rest of the UI.
fn extra_parts(app: &TuiApp) -> Vec<StatusPart> {
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
        parts.push(StatusPart::new(0, style, format!("{waits}: {how}")).or(waits));
    }
    if !app.transcript.is_following() && app.overlay.is_none() {
        let label = if app.transcript.has_new_below() {
            "↓ new below"
        } else {
            "↑ scrolled"
        };
        parts.push(StatusPart::new(1, app.theme.accent, label));
    }
    let is_said_above = matches!(app.focus, AppFocus::Search { .. });
    if let Some((at, all)) = app.transcript.match_position()
        && all > 0
        && !is_said_above
    {
        let label = format!("place {at} of {all}");
        parts.push(StatusPart::new(3, app.theme.accent, label));
    }
    parts
}
