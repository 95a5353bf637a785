//! Draws long text in front of the page, with its title above and its keys below.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::activity::tail;
use super::page::thumb;
use super::put;
use crate::app::TuiApp;
use crate::overlay::Viewer;
use crate::text::{fit, query_regex};

/// The area of the text.
pub(crate) fn body(area: Rect) -> Rect {
    let (above, below) = margins(area);
    Rect {
        y: area.y + above,
        width: super::page_width(area),
        height: area.height - above - below,
        ..area
    }
}

/// Lines above and below the text: title and rule, rule and keys. Fewer on a low screen.
pub(super) fn margins(area: Rect) -> (u16, u16) {
    match area.height {
        0..=2 => (0, 0),
        3..=7 => (1, 0),
        _ => (2, 2),
    }
}

pub(super) fn draw(
    viewer: &Viewer,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let theme = &app.theme;
    let body = body(area);
    let (top, shown, all) = viewer.position();
    let position = if all > shown {
        format!("{} %", (top + shown).min(all) * 100 / all.max(1))
    } else {
        String::new()
    };
    frame(
        app,
        viewer.content.title(),
        &viewer.content.summary(),
        &position,
        area,
        buffer,
    );
    for (row, (is_found, line)) in (0..body.height).zip(viewer.visible()) {
        put(line, body, row, buffer);
        if is_found {
            let row = Rect {
                y: body.y + row,
                height: 1,
                ..body
            };
            highlight_matches(&viewer.search().query, row, app, buffer);
        }
    }
    if body.width < area.width {
        for row in thumb(top, shown, all, body.height) {
            let column = Rect {
                x: area.right() - 1,
                width: 1,
                ..body
            };
            put(&Line::styled("▐", theme.dim), column, row, buffer);
        }
    }
    let search = viewer.search();
    let found = match search.position() {
        None => String::new(),
        Some((_, 0)) => "not found".to_owned(),
        Some((at, all)) => format!("{at} of {all}"),
    };
    if search.is_being_written {
        let rest = format!("{found}  enter looks at the places · esc ends");
        return draw_query("look for ", &search.query, &rest, app, area, buffer);
    }
    let tab = match viewer.part_name() {
        Some(name) => format!("tab next {name} · "),
        None => String::new(),
    };
    let keys = if search.query.is_empty() {
        format!("↑↓ scroll · {tab}/ look for words · y copy · esc close")
    } else {
        format!("{found}  n N other places · esc ends")
    };
    draw_hints(app, &keys, area, buffer);
    None
}

/// Draws the title, the summary beside it, and the rules.
pub(super) fn frame(
    app: &TuiApp,
    title: &str,
    summary: &str,
    right: &str,
    area: Rect,
    buffer: &mut Buffer,
) {
    let theme = &app.theme;
    let (above, below) = margins(area);
    if above > 0 {
        let room = usize::from(area.width);
        let left = title.width() + 2;
        let summary = fit(summary, room.saturating_sub(left + right.width() + 2));
        let gap = room.saturating_sub(left + summary.width() + right.width());
        let line = Line::from(vec![
            Span::styled(format!("{title}  "), theme.heading),
            Span::styled(summary, theme.dim),
            Span::raw(" ".repeat(gap)),
            Span::styled(right.to_owned(), theme.dim),
        ]);
        put(&line, area, 0, buffer);
    }
    let rule = Line::styled("─".repeat(usize::from(area.width)), theme.border);
    if above > 1 {
        put(&rule, area, 1, buffer);
    }
    if below > 1 {
        put(&rule, area, area.height - 2, buffer);
    }
}

/// Draws the key hints at the bottom.
pub(super) fn draw_hints(app: &TuiApp, keys: &str, area: Rect, buffer: &mut Buffer) {
    if margins(area).1 > 0 {
        let keys = fit(keys, usize::from(area.width));
        put(
            &Line::styled(keys, app.theme.dim),
            area,
            area.height - 1,
            buffer,
        );
    }
}

/// Draws a query that is being typed at the bottom. Returns the cursor position.
fn draw_query(
    name: &str,
    text: &str,
    rest: &str,
    app: &TuiApp,
    area: Rect,
    buffer: &mut Buffer,
) -> Option<Position> {
    let theme = &app.theme;
    let room = usize::from(area.width);
    let text = tail(text, room.saturating_sub(name.width() + 1));
    let used = name.width() + text.width();
    let row = area.height.checked_sub(1)?;
    let line = Line::from(vec![
        Span::styled(name.to_owned(), theme.accent),
        Span::styled(text, theme.text),
        Span::raw(" ".repeat(3.min(room.saturating_sub(used)))),
        Span::styled(fit(rest, room.saturating_sub(used + 3)), theme.dim),
    ]);
    put(&Line::from(" ".repeat(room)), area, row, buffer);
    put(&line, area, row, buffer);
    let column = u16::try_from(used).unwrap_or(u16::MAX);
    Some(Position::new(area.x.saturating_add(column), area.y + row))
}

/// Highlights the matches on a row that has been drawn.
fn highlight_matches(query: &str, row: Rect, app: &TuiApp, buffer: &mut Buffer) {
    let row = row.intersection(*buffer.area());
    let Some(query) = query_regex(query) else {
        return;
    };
    // A wide character fills two cells, of which the second is empty.
    let mut text = String::new();
    let mut columns = Vec::new();
    for x in row.left()..row.right() {
        let symbol = buffer.cell((x, row.y)).map_or("", |cell| cell.symbol());
        columns.extend(std::iter::repeat_n(x, symbol.len()));
        text.push_str(symbol);
    }
    for found in query.find_iter(&text) {
        let (first, last) = (columns[found.start()], columns[found.end() - 1]);
        let area = Rect {
            x: first,
            width: last - first + 1,
            ..row
        };
        buffer.set_style(area, app.theme.current_match);
    }
}
