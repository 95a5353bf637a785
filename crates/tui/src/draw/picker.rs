//! Draws a list with a search query above it, in front of the page. Independent of the kind of
//! rows: see [`super::lists`].

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

use super::activity::tail;
use super::put;
use super::viewer::margins;
use crate::amount;
use crate::app::TuiApp;
use crate::overlay::{Picker, PickerState};
use crate::text::wrap_prose;

/// Minimum width for a preview beside the list.
const MIN_WIDTH_FOR_PREVIEW_BESIDE: u16 = 100;
/// Label before the query.
const QUERY_LABEL: &str = "look for ";
/// Minimum list height for a preview below the list.
const MIN_HEIGHT_FOR_PREVIEW_BELOW: u16 = 14;

/// The areas of a picker.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PickerPanes {
    pub(super) query: Rect,
    pub(crate) list: Rect,
    pub(super) preview: Rect,
}

pub(crate) fn panes(area: Rect, has_preview: bool) -> PickerPanes {
    let (above, below) = margins(area);
    let inner = Rect {
        y: area.y + above,
        height: area.height - above - below,
        ..area
    };
    let query = Rect {
        height: inner.height.min(1),
        ..inner
    };
    let mut list = Rect {
        y: inner.y + query.height,
        height: inner.height - query.height,
        ..inner
    };
    let mut preview = Rect::default();
    if has_preview && area.width >= MIN_WIDTH_FOR_PREVIEW_BESIDE {
        let width = area.width / 5 * 2;
        preview = Rect {
            x: area.right() - width,
            width,
            ..inner
        };
        list.width -= width + 2;
    } else if has_preview && list.height >= MIN_HEIGHT_FOR_PREVIEW_BELOW {
        let height = list.height / 2;
        preview = Rect {
            y: list.bottom() - height,
            height,
            ..list
        };
        list.height -= height;
    }
    PickerPanes {
        query,
        list,
        preview,
    }
}

/// The number of rows, and how many of them match the query.
pub(super) fn count_text<Row>(picker: &Picker<Row>, one: &str) -> String {
    let (kept, all) = picker.counts();
    let many = format!("{one}s");
    match picker.state() {
        PickerState::Here if kept < all => {
            format!("{kept} of {}", amount::some(all as u64, one, &many))
        }
        PickerState::Here => amount::some(all as u64, one, &many),
        PickerState::Waiting | PickerState::Failed(_) => String::new(),
    }
}

/// Draws the query. Returns the cursor position.
pub(super) fn query_line(query: &str, app: &TuiApp, area: Rect, buffer: &mut Buffer) -> Position {
    let shown = tail(
        query,
        usize::from(area.width).saturating_sub(QUERY_LABEL.width() + 1),
    );
    let column = u16::try_from(shown.width() + QUERY_LABEL.width()).unwrap_or(u16::MAX);
    let line = Line::from(vec![
        Span::styled(QUERY_LABEL, app.theme.accent),
        Span::styled(shown, app.theme.text),
    ]);
    put(&line, area, 0, buffer);
    let last = area.right().saturating_sub(1);
    Position::new(area.x.saturating_add(column).min(last), area.y)
}

/// Draws the visible rows, or the reason why there are none.
pub(super) fn list<Row>(
    picker: &Picker<Row>,
    app: &TuiApp,
    panes: PickerPanes,
    nothing: &str,
    line: impl Fn(&Row, Style) -> Line<'static>,
    buffer: &mut Buffer,
) {
    let theme = &app.theme;
    let (kept, _) = picker.counts();
    let message = match picker.state() {
        PickerState::Waiting => Some(("looking …".to_owned(), theme.dim)),
        PickerState::Failed(reason) => Some((reason.clone(), theme.bad)),
        PickerState::Here if kept == 0 => Some((nothing.to_owned(), theme.dim)),
        PickerState::Here => None,
    };
    if let Some((message, style)) = message {
        let lines = wrap_prose(&message, panes.list.width, style);
        for (row, line) in (0..panes.list.height).zip(&lines) {
            put(line, panes.list, row, buffer);
        }
        return;
    }
    for (row, (is_chosen, item)) in (0..panes.list.height).zip(picker.visible()) {
        let style = if is_chosen { theme.strong } else { theme.text };
        let mut shown = Line::from(Span::styled(
            if is_chosen { "▸ " } else { "  " },
            theme.accent,
        ));
        shown.spans.extend(line(item, style).spans);
        put(&shown, panes.list, row, buffer);
        if is_chosen {
            let area = Rect {
                y: panes.list.y + row,
                height: 1,
                ..panes.list
            };
            // One uniform bar across the row, whatever the styles of its parts.
            let bar = theme
                .selected
                .fg(Color::Reset)
                .remove_modifier(Modifier::DIM);
            buffer.set_style(area, bar);
        }
    }
}
