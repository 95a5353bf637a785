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
use self::page_layout::{LinePosition, PageLayout};
use self::search::PageSearch;
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
    cache: LayoutCache,
    view: PageView,
    selected: Option<usize>,
    search: Option<PageSearch>,
    /// The entry that was opened only to show a search match.
    auto_opened: Option<usize>,
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
            self.view.mark_new();
        }
    }

    /// Adds a note of the UI.
    pub(crate) fn note(&mut self, text: impl Into<String>, tone: NoteTone) {
        let text = crate::text::clean(&text.into()).into_owned();
        self.log.push(TranscriptEntry::Note { text, tone });
        self.view.mark_new();
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
        self.cache.start_frame();
        let mut page = PageLayout {
            log: &self.log,
            cache: &mut self.cache,
            width,
            theme,
        };
        let search = self.search.as_mut();
        let match_line = search.and_then(|search| {
            let line = page.match_line(search)?;
            if std::mem::take(&mut search.reveals_match) {
                self.view.reveal(RevealTarget::Line(line));
            }
            Some(line)
        });
        let rows = self.view.arrange(&mut page, height);
        self.position = scroll_position(self.view.top(), &mut page, rows.len());
        self.view.positions = rows.iter().map(|row| row.position).collect();
        let emphasis = RowEmphasis {
            selected: self.selected,
            query: self.search.as_ref().map(|search| &search.query),
            match_line,
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
        self.view.has_new_below()
    }

    /// The approximate position of the view.
    pub(crate) fn position(&self) -> ScrollPosition {
        self.position
    }

    /// The last reply of the model, as written.
    pub(crate) fn last_reply(&self) -> Option<&str> {
        let reply = |index: usize| match self.log.entry(index)? {
            TranscriptEntry::Reply { text, .. } if self.log.is_shown(index) => Some(text.as_str()),
            _ => None,
        };
        (0..self.log.len()).rev().find_map(reply)
    }
}

fn scroll_position(
    top: Option<LinePosition>,
    page: &mut PageLayout<'_>,
    height: usize,
) -> ScrollPosition {
    let total = page.log.weight(usize::MAX).max(height);
    let above = match top {
        None => total - height,
        Some(top) => {
            let before = page.log.weight(top.entry);
            let own = page.log.weight(top.entry + 1) - before;
            let (part, parts) = page.share(top);
            (before + own * part / parts).min(total.saturating_sub(height))
        }
    };
    ScrollPosition {
        above,
        height,
        total,
    }
}
