//! The visible part of the page.
//!
//! The view is anchored to its first line, or to the end of the page, which it then follows.
//! Changes above or below do not move it.

use ratatui::text::Line;

use super::page_layout::{LinePosition, PageLayout, PageRow};

#[derive(Debug, Default)]
pub(super) struct PageView {
    /// The first line; `None` while the end is followed.
    top: Option<LinePosition>,
    /// Lines to scroll by at the next layout; negative is up.
    pending_scroll: i64,
    reveal: Option<RevealTarget>,
    width: u16,
    pub(super) height: u16,
    /// Positions of the visible lines.
    pub(super) positions: Vec<LinePosition>,
    pub(super) lines: Vec<Line<'static>>,
    /// Something was added below the view.
    has_new_below: bool,
}

/// What to scroll into view.
#[derive(Debug, Clone, Copy)]
pub(super) enum RevealTarget {
    /// A line, on any row.
    Line(LinePosition),
    /// The first line of an entry, on this row.
    Keep { entry: usize, row: usize },
}

impl PageView {
    pub(super) fn scroll(&mut self, lines: i64) {
        self.pending_scroll = self.pending_scroll.saturating_add(lines);
    }

    pub(super) fn go_to_top(&mut self) {
        self.top = Some(LinePosition::default());
        self.cancel_moves();
    }

    pub(super) fn go_to_end(&mut self) {
        self.top = None;
        self.cancel_moves();
    }

    pub(super) fn reveal(&mut self, reveal: RevealTarget) {
        self.cancel_moves();
        self.reveal = Some(reveal);
    }

    fn cancel_moves(&mut self) {
        self.pending_scroll = 0;
        self.reveal = None;
    }

    pub(super) fn is_following(&self) -> bool {
        self.top.is_none() && self.pending_scroll >= 0
    }

    /// Something was added at the end of the page.
    pub(super) fn mark_new(&mut self) {
        self.has_new_below |= !self.is_following();
    }

    pub(super) fn has_new_below(&self) -> bool {
        self.has_new_below && !self.is_following()
    }

    pub(super) fn top(&self) -> Option<LinePosition> {
        self.top
    }

    /// The row of an entry's first line.
    pub(super) fn row_of(&self, entry: usize) -> Option<usize> {
        let head = LinePosition::head(entry);
        self.positions.iter().position(|position| *position == head)
    }

    /// Computes the visible lines.
    pub(super) fn arrange(&mut self, page: &mut PageLayout<'_>, height: u16) -> Vec<PageRow> {
        if let Some(top) = self.top
            && self.width != page.width
            && self.width > 0
        {
            self.top = Some(page.at_other_width(top, self.width));
        }
        (self.width, self.height) = (page.width, height);
        let height = usize::from(height);
        if height == 0 || page.width == 0 {
            return Vec::new();
        }
        let end = page.end();
        let mut top = match self.top {
            Some(top) => page.settle(top),
            None => page.back(end, height),
        };
        match self.reveal.take() {
            Some(RevealTarget::Line(line)) => {
                let line = page.settle(line);
                let rows = page.fill(top, height);
                if !rows.iter().any(|row| row.position == line) {
                    top = page.back(line, height / 3);
                }
            }
            Some(RevealTarget::Keep { entry, row }) => {
                let head = page.settle(LinePosition::head(entry));
                top = page.back(head, row.min(height - 1));
            }
            None => {}
        }
        let scroll = std::mem::take(&mut self.pending_scroll);
        let lines = usize::try_from(scroll.unsigned_abs()).unwrap_or(usize::MAX);
        top = if scroll < 0 {
            page.back(top, lines)
        } else {
            page.forward(top, lines)
        };
        let mut rows = page.fill(top, height);
        if rows.len() < height {
            top = page.back(end, height);
            rows = page.fill(top, height);
        }
        let is_at_end = page.forward(top, rows.len()) == end;
        self.top = (!is_at_end).then_some(top);
        self.has_new_below &= !is_at_end;
        rows
    }
}
