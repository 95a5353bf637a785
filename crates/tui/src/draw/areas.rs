//! The layout of the screen. Pure: the same state and size give the same areas.

use ratatui::layout::Rect;

use crate::app::{AppFocus, TuiApp};
use crate::question::{PanelContext, QuestionFit, QuestionPanel};

/// Minimum screen height for rules around the editor.
const MIN_RULED_HEIGHT: u16 = 8;
/// Minimum screen height for showing queued messages.
const MIN_QUEUE_HEIGHT: u16 = 12;
const MAX_SHOWN_QUEUED: usize = 3;
/// Width of the prompt mark before the text of the editor.
pub(super) const PROMPT_WIDTH: u16 = 2;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScreenAreas {
    /// The transcript. Its last column is for the scroll bar.
    pub(crate) page: Rect,
    pub(super) queue: Rect,
    /// What the agent is doing, or a search query.
    pub(super) line: Rect,
    pub(super) question: Rect,
    /// The editor with its rules.
    pub(super) editor: Rect,
    /// The text inside the editor.
    pub(crate) text: Rect,
    pub(super) status: Rect,
    /// Everything but the status: the area of an overlay.
    pub(crate) overlay_area: Rect,
    /// How much of the question is visible.
    pub(crate) fit: QuestionFit,
}

/// Allocates from the bottom up, so that the page gets the remaining rows.
pub(crate) fn screen_areas(app: &TuiApp) -> ScreenAreas {
    let screen = Rect::new(0, 0, app.width, app.height);
    if screen.is_empty() {
        return ScreenAreas::default();
    }
    let mut left = screen;
    let mut take = |height: u16| {
        let height = height.min(left.height);
        left.height -= height;
        Rect::new(left.x, left.y + left.height, left.width, height)
    };
    let status = match app.height {
        1 => take(0),
        _ => take(super::status::height(app)),
    };
    let rules = if app.height >= MIN_RULED_HEIGHT { 2 } else { 0 };
    let most = (u32::from(app.height) * 2 / 5).max(1);
    let most = u16::try_from(most).unwrap_or(u16::MAX);
    let rows = app.editor.height(text_width(app.width)).clamp(1, most);
    let editor = take(rows + rules);
    let panel = panel(app, remaining_height(screen, &[status, editor]));
    let question = take(u16::try_from(panel.lines.len()).unwrap_or(u16::MAX));
    let has_line = app.height >= MIN_RULED_HEIGHT - 2 && has_line(app) && question.is_empty();
    let line = take(u16::from(has_line));
    let queued = if app.height >= MIN_QUEUE_HEIGHT {
        app.queue.len().min(MAX_SHOWN_QUEUED)
    } else {
        0
    };
    let queue = take(u16::try_from(queued).unwrap_or(u16::MAX));
    let text = Rect {
        x: editor.x + PROMPT_WIDTH.min(editor.width),
        y: editor.y + rules / 2,
        width: text_width(app.width),
        height: editor.height.saturating_sub(rules),
    };
    ScreenAreas {
        page: left,
        queue,
        line,
        question,
        editor,
        text: text.intersection(screen),
        status,
        overlay_area: Rect {
            height: screen.height - status.height,
            ..screen
        },
        fit: match app.overlay {
            Some(_) => QuestionFit::Hidden,
            None => panel.fit,
        },
    }
}

/// Width of the transcript within the page.
pub(crate) fn page_width(page: Rect) -> u16 {
    page.width.saturating_sub(u16::from(page.width >= 20))
}

fn text_width(width: u16) -> u16 {
    width.saturating_sub(PROMPT_WIDTH).max(1)
}

fn remaining_height(screen: Rect, taken: &[Rect]) -> u16 {
    let taken: u16 = taken.iter().map(|area| area.height).sum();
    screen.height.saturating_sub(taken)
}

fn has_line(app: &TuiApp) -> bool {
    app.is_busy() || app.focus != AppFocus::Editor
}

/// The question, laid out for at most `height` lines.
pub(super) fn panel(app: &TuiApp, height: u16) -> QuestionPanel {
    app.questions.panel(PanelContext {
        now: app.now,
        is_free: app.is_free(),
        width: app.width,
        height,
        theme: &app.theme,
    })
}
