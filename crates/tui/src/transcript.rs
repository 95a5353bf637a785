//! The transcript page: a fold over events, and the visible part of it.
//!
//! Only the visible part is laid out, so that the cost does not depend on the length of the
//! session: the view is anchored to an entry and a line in it, not to a count of all lines. Entry
//! type: [`Transcript`].

mod amount;
mod browse;
mod call;
mod compose;
mod entry;
mod fold;
mod input;
mod layout_cache;
mod locate;
mod log;
mod needle;
mod page_layout;
mod piece;
mod search;
mod section;
mod section_layout;
mod summary;
#[cfg(test)]
mod tests;
mod view;

use protocol::Event;
use ratatui::text::Line;

use self::compose::{RowEmphasis, compose_row};
pub(crate) use self::entry::NoteTone;
use self::entry::TranscriptEntry;
use self::layout_cache::LayoutCache;
use self::log::EntryLog;
use self::page_layout::PageLayout;
use self::search::{MatchLineKey, PageSearch};
use self::view::{PageView, RevealTarget};
use crate::theme::Theme;

/// Position of the view in lines. Lines out of view are estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ScrollPosition {
    /// Lines above the view.
    pub(crate) above: usize,
    pub(crate) height: usize,
    pub(crate) total: usize,
}

/// All entries, and the view on them.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    log: EntryLog,
    shelf: LayoutCache,
    view: PageView,
    selected: Option<usize>,
    search: Option<PageSearch>,
    /// The entry that was opened only to show a search match.
    lent: Option<usize>,
    position: ScrollPosition,
}

impl Transcript {
    /// Builds a transcript from the events so far.
    pub(crate) fn open(history: &[Event]) -> Self {
        let mut transcript = Self::default();
        for event in history {
            transcript.apply(event);
        }
        transcript
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        fold::apply_event(&mut self.log, event);
        if self.log.has_changed() {
            self.view.notice();
        }
    }

    /// Adds a note of the UI.
    pub(crate) fn note(&mut self, text: impl Into<String>, tone: NoteTone) {
        let text = crate::text::clean(&text.into()).into_owned();
        self.log.push(TranscriptEntry::Note { text, tone });
        self.view.notice();
    }

    /// Whether nothing is shown.
    pub(crate) fn is_empty(&self) -> bool {
        !(0..self.log.len()).any(|index| self.log.is_shown(index))
    }

    /// Lays out the visible part. Called before every draw.
    pub(crate) fn arrange(&mut self, width: u16, height: u16, theme: &Theme) {
        let changed = self.log.take_changed();
        if let Some(search) = &mut self.search {
            search.refresh(&self.log, changed);
        }
        self.shelf.begin();
        let mut desk = PageLayout {
            log: &self.log,
            shelf: &mut self.shelf,
            width,
            theme,
        };
        let found = self.search.as_mut().and_then(|search| {
            let place = current_match_line(search, &mut desk)?;
            if std::mem::take(&mut search.is_wanted) {
                self.view.reveal(RevealTarget::Line(place));
            }
            Some(place)
        });
        let rows = self.view.arrange(&mut desk, height);
        self.position = position(&self.view, &mut desk, rows.len());
        self.view.places = rows.iter().map(|row| row.place).collect();
        let emphasis = RowEmphasis {
            selected: self.selected,
            needle: self.search.as_ref().map(|search| &search.needle),
            found,
        };
        self.view.lines = rows
            .into_iter()
            .map(|row| compose_row(row, &self.log, &emphasis, width, theme))
            .collect();
    }

    pub(crate) fn visible(&self) -> &[Line<'static>] {
        &self.view.lines
    }

    /// Scrolls by lines; positive is down.
    pub(crate) fn scroll(&mut self, lines: i32) {
        self.view.scroll(i64::from(lines));
    }

    /// Scrolls by pages; positive is down.
    pub(crate) fn page(&mut self, pages: i32) {
        // Two lines of the old page stay visible for orientation.
        let lines = i64::from(self.view.height.saturating_sub(2).max(1));
        self.view.scroll(i64::from(pages) * lines);
    }

    pub(crate) fn go_to_top(&mut self) {
        self.view.go_to_top();
    }

    pub(crate) fn go_to_end(&mut self) {
        self.view.go_to_end();
    }

    /// Whether the end is visible and stays visible as entries are added.
    pub(crate) fn is_following(&self) -> bool {
        self.view.is_following()
    }

    /// Whether something was added while the end was out of view.
    pub(crate) fn has_new_below(&self) -> bool {
        self.view.has_news()
    }

    /// The approximate position of the view.
    pub(crate) fn position(&self) -> ScrollPosition {
        self.position
    }

    /// The last reply of the model, as written.
    pub(crate) fn last_reply(&self) -> Option<&str> {
        let words = |index: &usize| match self.log.entry(*index)? {
            TranscriptEntry::Words { text, .. } if self.log.is_shown(*index) => Some(text.as_str()),
            _ => None,
        };
        (0..self.log.len()).rev().find_map(|index| words(&index))
    }
}

/// The line of the current match. Located again only when it may have moved.
fn current_match_line(
    search: &mut PageSearch,
    desk: &mut PageLayout<'_>,
) -> Option<page_layout::LinePosition> {
    let found = search.current()?;
    let entry = found.entry();
    let seen = MatchLineKey {
        found,
        revision: desk.log.get(entry)?.revision,
        width: desk.width,
        is_open: desk.log.is_open(entry),
    };
    if let Some((before, place)) = search.line
        && before == seen
    {
        return Some(place);
    }
    let place = if search.is_visible(desk.log) {
        desk.match_position_of(entry, found.section(), found.offset(), &search.needle)
    } else {
        page_layout::LinePosition::head(entry)
    };
    search.line = Some((seen, place));
    Some(place)
}

fn position(view: &PageView, desk: &mut PageLayout<'_>, height: usize) -> ScrollPosition {
    let total = desk.log.weight(usize::MAX).max(height);
    let above = match view.top() {
        None => total - height,
        Some(top) => {
            let before = desk.log.weight(top.entry);
            let own = desk.log.weight(top.entry + 1) - before;
            let (part, parts) = desk.share(top);
            (before + own * part / parts).min(total.saturating_sub(height))
        }
    };
    ScrollPosition {
        above,
        height,
        total,
    }
}
