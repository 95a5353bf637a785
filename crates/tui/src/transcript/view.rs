//! The visible part of the page.
//!
//! The view is anchored to its first line, or to the end of the page, which it then follows.
//! Changes above or below do not move it.

use ratatui::text::Line;

use super::layout_cache::LayoutCache;
use super::page_layout::{LinePosition, PageLayout, PageRow};

#[derive(Debug, Default)]
pub(super) struct PageView {
    /// The first line; `None` while the end is followed.
    top: Option<LinePosition>,
    /// Lines to scroll by at the next layout; negative is up.
    wanted: i64,
    reveal: Option<RevealTarget>,
    width: u16,
    pub(super) height: u16,
    /// Positions of the visible lines.
    pub(super) places: Vec<LinePosition>,
    pub(super) lines: Vec<Line<'static>>,
    /// Something was added below the view.
    has_news: bool,
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
        self.wanted = self.wanted.saturating_add(lines);
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
        self.wanted = 0;
        self.reveal = None;
    }

    pub(super) fn is_following(&self) -> bool {
        self.top.is_none() && self.wanted >= 0
    }

    /// Something was added at the end of the page.
    pub(super) fn notice(&mut self) {
        self.has_news |= !self.is_following();
    }

    pub(super) fn has_news(&self) -> bool {
        self.has_news && !self.is_following()
    }

    pub(super) fn top(&self) -> Option<LinePosition> {
        self.top
    }

    /// The last visible line.
    pub(super) fn last(&self) -> Option<LinePosition> {
        self.places.last().copied()
    }

    /// The row of an entry's first line.
    pub(super) fn row_of(&self, entry: usize) -> Option<usize> {
        let head = LinePosition::head(entry);
        self.places.iter().position(|place| *place == head)
    }

    /// Computes the visible lines.
    pub(super) fn arrange(&mut self, desk: &mut PageLayout<'_>, height: u16) -> Vec<PageRow> {
        if let Some(top) = self.top
            && self.width != desk.width
            && self.width > 0
        {
            self.top = Some(position_at_width(desk, top, self.width));
        }
        (self.width, self.height) = (desk.width, height);
        let height = usize::from(height);
        if height == 0 || desk.width == 0 {
            return Vec::new();
        }
        let mut top = match self.top {
            Some(top) => desk.settle(top),
            None => {
                let end = desk.end();
                desk.back(end, height)
            }
        };
        match self.reveal.take() {
            Some(RevealTarget::Line(place)) => {
                let place = desk.settle(place);
                let rows = desk.fill(top, height);
                if !rows.iter().any(|row| row.place == place) {
                    top = desk.back(place, height / 3);
                }
            }
            Some(RevealTarget::Keep { entry, row }) => {
                let place = desk.settle(LinePosition::head(entry));
                top = desk.back(place, row.min(height - 1));
            }
            None => {}
        }
        let wanted = std::mem::take(&mut self.wanted);
        let by = usize::try_from(wanted.unsigned_abs()).unwrap_or(usize::MAX);
        top = if wanted < 0 {
            desk.back(top, by)
        } else {
            desk.forward(top, by)
        };
        let mut rows = desk.fill(top, height);
        let end = desk.end();
        if rows.len() < height {
            top = desk.back(end, height);
            rows = desk.fill(top, height);
        }
        let is_at_end = desk.forward(top, rows.len()) == end;
        self.top = (!is_at_end).then_some(top);
        self.has_news &= !is_at_end;
        rows
    }
}

/// The line with the same text at another width.
fn position_at_width(
    desk: &mut PageLayout<'_>,
    place: LinePosition,
    old_width: u16,
) -> LinePosition {
    let shelf: &mut LayoutCache = desk.shelf;
    let mut before = PageLayout {
        log: desk.log,
        shelf,
        width: old_width,
        theme: desk.theme,
    };
    let place = before.settle(place);
    let letters = before.alphanumerics_before(place);
    LinePosition {
        line: match place.line {
            0 => 0,
            _ => desk.line_of_alphanumeric(place.entry, place.block, letters),
        },
        ..place
    }
}
