//! The line above the editor: what the agent is doing, or a search query; and above it the queued
//! messages.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::put;
use crate::amount;
use crate::app::{AppFocus, TuiApp};
use crate::status::ANIMATION_INTERVAL;
use crate::text::fit;

/// Label of a queued message.
const QUEUE_LABEL: &str = "next  ";
/// Slow, and made of characters that every font has.
const SPINNER: [&str; 6] = ["·  ", "·· ", "···", " ··", "  ·", "   "];

pub(super) fn draw_queue(app: &TuiApp, area: Rect, buffer: &mut Buffer) {
    let theme = &app.theme;
    let rows = usize::from(area.height);
    let shown = if app.queue.len() > rows {
        rows.saturating_sub(1)
    } else {
        app.queue.len()
    };
    let room = usize::from(area.width).saturating_sub(QUEUE_LABEL.width());
    let line = |text: &str| {
        Line::from(vec![
            Span::styled(QUEUE_LABEL, theme.accent.patch(theme.dim)),
            Span::styled(fit(text, room), theme.dim),
        ])
    };
    let mut lines: Vec<Line<'_>> = app
        .queue
        .iter()
        .take(shown)
        .map(|one| line(&one.line()))
        .collect();
    if shown < app.queue.len() {
        lines.push(line(&format!("… {} more", app.queue.len() - shown)));
    }
    for (row, line) in (0..area.height).zip(&lines) {
        put(line, area, row, buffer);
    }
}

/// Returns the cursor position while a query is being typed here.
pub(super) fn draw(app: &TuiApp, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    if area.is_empty() {
        return None;
    }
    match &app.focus {
        AppFocus::Editor => {
            put(&activity_line(app, area.width), area, 0, buffer);
            None
        }
        AppFocus::Browse => {
            let line = Line::styled(
                "↑↓ choose · enter opens · d changes · y copies · / looks for words · esc back",
                app.theme.dim,
            );
            put(&line, area, 0, buffer);
            None
        }
        AppFocus::Search { query } => {
            let found = match app.transcript.match_position() {
                _ if query.is_empty() => "on the page".to_owned(),
                Some((at, all)) if all > 0 => format!("{at} of {all}"),
                _ => "not found".to_owned(),
            };
            let rest = format!("{found} · ↑↓ other places · enter looks at them · esc back");
            Some(draw_query(app, "look for ", query, &rest, area, buffer))
        }
        AppFocus::HistorySearch { query } => {
            let rest = "ctrl-r older · enter takes it · esc back";
            Some(draw_query(app, "said before ", query, rest, area, buffer))
        }
    }
}

/// Draws a line with a query that is being typed. Returns the cursor position.
fn draw_query(
    app: &TuiApp,
    name: &str,
    text: &str,
    rest: &str,
    area: Rect,
    buffer: &mut Buffer,
) -> Position {
    let theme = &app.theme;
    let room = usize::from(area.width);
    let most = room.saturating_sub(name.width() + 1);
    let text = tail(text, most);
    let used = name.width() + text.width();
    let gap = 3.min(room.saturating_sub(used));
    let line = Line::from(vec![
        Span::styled(name.to_owned(), theme.accent),
        Span::styled(text, theme.text),
        Span::raw(" ".repeat(gap)),
        Span::styled(fit(rest, room.saturating_sub(used + gap)), theme.dim),
    ]);
    put(&line, area, 0, buffer);
    let column = u16::try_from(used).unwrap_or(u16::MAX);
    Position::new(
        area.x
            .saturating_add(column)
            .min(area.right().saturating_sub(1)),
        area.y,
    )
}

/// As much of the end of a text as fits.
pub(super) fn tail(text: &str, room: usize) -> String {
    let mut tail = String::new();
    for (offset, _) in text.char_indices() {
        if text[offset..].width() <= room {
            tail.push_str(&text[offset..]);
            break;
        }
    }
    tail
}

fn activity_line(app: &TuiApp, width: u16) -> Line<'static> {
    let theme = &app.theme;
    let status = &app.status;
    let frame = app.now.as_millis() / ANIMATION_INTERVAL.as_millis();
    let spinner = SPINNER[usize::try_from(frame % SPINNER.len() as u128).unwrap_or(0)];
    let elapsed = amount::time(status.elapsed().unwrap_or_default());
    let usage = status.activity.usage;
    let mut facts = vec![elapsed];
    if usage.total() > 0 {
        let (input, output) = (usage.input(), usage.output_tokens);
        facts.push(format!(
            "↑{} ↓{}",
            amount::tokens(input),
            amount::tokens(output)
        ));
    }
    facts.push("esc interrupts".to_owned());
    let room = usize::from(width);
    let mut rest = format!(" · {}", facts.join(" · "));
    // The activity matters more than its token counts.
    if rest.width() + 30 > room {
        facts.retain(|fact| !fact.starts_with('↑'));
        rest = format!(" · {}", facts.join(" · "));
    }
    if rest.width() + 15 > room {
        rest = format!(" · {}", facts[0]);
    }
    let text = match (status.is_busy, &status.sandbox) {
        (true, _) => status.activity.text(app.now),
        // The turn was requested and has not started.
        (false, None) => "starting the sandbox".to_owned(),
        (false, Some(_)) => "waiting for the agent".to_owned(),
    };
    let text = fit(&text, room.saturating_sub(rest.width() + 4));
    Line::from(vec![
        Span::styled(format!("{spinner} "), theme.accent),
        Span::styled(text, theme.text),
        Span::styled(rest, theme.dim),
    ])
}
