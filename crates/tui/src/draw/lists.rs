//! The rows of the pickers: sessions, jobs, models.

use jiff::Timestamp;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::picker::{count_text, list, panes, query_line};
use super::put;
use super::viewer::{draw_hints, frame};
use crate::amount;
use crate::app::TuiApp;
use crate::overlay::{JobPicker, ModelPicker, SessionPicker};
use crate::port::{JobRow, SessionRow};
use crate::text::{fit, wrap_prose};

/// Maximum number of preview lines that are laid out.
const MAX_PREVIEW_LINES: usize = 400;

pub(super) fn draw_sessions(
    sessions: &SessionPicker,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let panes = panes(area, true);
    let picker = &sessions.picker;
    frame(
        app,
        "sessions",
        &count_text(picker, "session"),
        "",
        area,
        buffer,
    );
    let row = |row: &SessionRow, style| session_line(row, app, panes.list.width, style);
    let nothing = "no session has these words";
    list(picker, app, panes, nothing, row, buffer);
    if let Some(selected) = picker.selected() {
        preview(selected, sessions.preview(), app, panes.preview, buffer);
    }
    let keys = "type to look for words · ↑↓ choose · enter opens · esc close";
    draw_hints(app, keys, area, buffer);
    Some(query_line(picker.query(), app, panes.query, buffer))
}

pub(super) fn draw_jobs(
    jobs: &JobPicker,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let panes = panes(area, false);
    frame(
        app,
        "jobs",
        &count_text(&jobs.picker, "job"),
        "",
        area,
        buffer,
    );
    let row = |row: &JobRow, style| job_line(row, app, panes.list.width, style);
    list(
        &jobs.picker,
        app,
        panes,
        "no job has these words",
        row,
        buffer,
    );
    let keys = "type to look for words · ↑↓ choose · enter follows · esc close";
    draw_hints(app, keys, area, buffer);
    Some(query_line(jobs.picker.query(), app, panes.query, buffer))
}

pub(super) fn draw_models(
    models: &ModelPicker,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let panes = panes(area, false);
    frame(
        app,
        "models",
        &count_text(&models.picker, "model"),
        "",
        area,
        buffer,
    );
    let row = |name: &String, style: Style| {
        let is_current = *name == models.current;
        Line::from(vec![
            Span::styled(name.clone(), style),
            Span::styled(if is_current { "  in use" } else { "" }, app.theme.dim),
        ])
    };
    let nothing = match models.name() {
        Some(name) => format!("enter takes `{name}` as it is"),
        None => "no models".to_owned(),
    };
    list(&models.picker, app, panes, &nothing, row, buffer);
    let keys = "type to look for words, or a name · ↑↓ choose · enter takes it · esc close";
    draw_hints(app, keys, area, buffer);
    Some(query_line(models.picker.query(), app, panes.query, buffer))
}

/// Age, turns, cost, outcome, title: as many as fit.
fn session_line(row: &SessionRow, app: &TuiApp, width: u16, style: Style) -> Line<'static> {
    let theme = &app.theme;
    let width = usize::from(width);
    let mut spans = vec![Span::styled(
        format!("{:>10}", age(app, row.changed)),
        theme.dim,
    )];
    if width >= 50 {
        let turns = amount::some(row.turns.into(), "turn", "turns");
        spans.push(Span::styled(format!("{turns:>10}"), theme.dim));
        let cost = row.cost.map(amount::money).unwrap_or_default();
        spans.push(Span::styled(format!("{cost:>9}"), theme.dim));
    }
    if width >= 70 {
        let outcome = fit(row.outcome.as_deref().unwrap_or_default(), 11);
        spans.push(Span::styled(format!("  {outcome:<11}"), theme.dim));
    }
    let title = if row.title.is_empty() {
        row.session.to_string()
    } else {
        row.title.clone()
    };
    let used: usize = spans.iter().map(Span::width).sum::<usize>() + 4;
    spans.push(Span::raw("  "));
    spans.push(Span::styled(fit(&title, width.saturating_sub(used)), style));
    Line::from(spans)
}

fn job_line(row: &JobRow, app: &TuiApp, width: u16, style: Style) -> Line<'static> {
    let theme = &app.theme;
    let width = usize::from(width);
    let job: String = row.job.to_string().chars().take(8).collect();
    let mut spans = vec![Span::styled(
        format!("{:>10}", age(app, row.changed)),
        theme.dim,
    )];
    if width >= 50 {
        spans.push(Span::styled(format!("  {job}"), theme.dim));
    }
    let state = fit(&row.state, 10);
    let colour = match row.state.as_str() {
        "running" => theme.accent,
        "complete" => theme.good,
        "error" => theme.bad,
        _ => theme.dim,
    };
    spans.push(Span::styled(format!("  {state:<10}"), colour));
    let used: usize = spans.iter().map(Span::width).sum::<usize>() + 4;
    spans.push(Span::raw("  "));
    spans.push(Span::styled(
        fit(&row.title, width.saturating_sub(used)),
        style,
    ));
    Line::from(spans)
}

fn age(app: &TuiApp, then: Timestamp) -> String {
    let now = app.clock().unwrap_or(Timestamp::MIN);
    amount::age(now, then)
}

/// Workspace and model of a session, and the end of its text.
fn preview(row: &SessionRow, text: Option<&str>, app: &TuiApp, area: Rect, buffer: &mut Buffer) {
    let theme = &app.theme;
    if area.is_empty() {
        return;
    }
    let mut lines = wrap_prose(
        &format!("session {}", row.session),
        area.width,
        theme.heading,
    );
    let location = format!("{} · {}", row.workspace, row.model);
    lines.push(Line::styled(
        fit(&location, usize::from(area.width)),
        theme.dim,
    ));
    if let Some(excerpt) = &row.excerpt {
        lines.extend(
            wrap_prose(excerpt, area.width, theme.emphasis)
                .into_iter()
                .take(3),
        );
    }
    lines.push(Line::default());
    let room = usize::from(area.height).saturating_sub(lines.len());
    let mut end: Vec<Line<'static>> = match text {
        None => vec![Line::styled("…", theme.dim)],
        Some(text) => {
            let all: Vec<&str> = text.lines().collect();
            let last = &all[all.len().saturating_sub(MAX_PREVIEW_LINES)..];
            let preview_lines = last
                .iter()
                .flat_map(|line| wrap_prose(line, area.width, theme.text));
            preview_lines.collect()
        }
    };
    lines.append(&mut end.split_off(end.len().saturating_sub(room)));
    for (row, line) in (0..area.height).zip(&lines) {
        put(line, area, row, buffer);
    }
}
