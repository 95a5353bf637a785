//! Selecting, opening, searching and copying entries.

use super::Transcript;
use super::entry::TranscriptEntry;
use super::needle::SearchNeedle;
use super::page_layout::LinePosition;
use super::search::{PageMatch, PageSearch};
use super::view::RevealTarget;
use crate::text::clean;

impl Transcript {
    /// Moves the selection by `step` entries; positive is down. Without a selection, selects the
    /// last entry that can be opened.
    pub(crate) fn select(&mut self, step: i32) {
        let log = &self.log;
        let is_shown = |index: &usize| log.is_shown(*index);
        let mut all = 0..log.len();
        let next = match self.selected {
            None => all
                .clone()
                .rev()
                .find(|index| log.opens(*index))
                .or_else(|| all.rfind(is_shown)),
            Some(selected) => {
                let steps = step.unsigned_abs() as usize;
                let steps = steps.saturating_sub(1);
                let next = match step {
                    0 => self.selected(),
                    1.. => (selected + 1..log.len()).filter(is_shown).nth(steps),
                    _ => (0..selected).rev().filter(is_shown).nth(steps),
                };
                let edge = || {
                    if step < 0 {
                        all.find(is_shown)
                    } else {
                        all.rfind(is_shown)
                    }
                };
                next.or_else(edge)
            }
        };
        self.selected = next;
        if let Some(entry) = next {
            self.view
                .reveal(RevealTarget::Line(LinePosition::head(entry)));
        }
    }

    pub(crate) fn unselect(&mut self) {
        self.selected = None;
    }

    pub(crate) fn selected(&self) -> Option<usize> {
        self.selected.filter(|index| self.log.is_shown(*index))
    }

    /// Opens or closes the selected entry.
    pub(crate) fn toggle_selected(&mut self) {
        if let Some(index) = self.selected() {
            self.toggle(index);
        }
    }

    pub(crate) fn toggle_all_calls(&mut self) {
        self.log.toggle_calls();
    }

    pub(crate) fn toggle_thinking(&mut self) {
        self.log.toggle_thinking();
    }

    /// Handles a click on a row of the view. Returns whether an entry was opened or closed.
    pub(crate) fn click(&mut self, row: u16) -> bool {
        let place = self.view.places.get(usize::from(row)).copied();
        match place.filter(|place| place.block > 0) {
            Some(place) => self.toggle(place.entry),
            None => false,
        }
    }

    /// Opens or closes an entry. Its first line stays on its row, or is scrolled into view.
    fn toggle(&mut self, index: usize) -> bool {
        if !self.log.opens(index) {
            return false;
        }
        let is_open = self.log.is_open(index);
        self.log.set_open(index, !is_open);
        self.lent.take_if(|lent| *lent == index);
        let row = self.view.row_of(index).unwrap_or(0);
        self.view.reveal(RevealTarget::Keep { entry: index, row });
        true
    }

    /// Searches all entries and goes to the nearest match above the end of the view in which the
    /// search began. Returns the number of matches.
    pub(crate) fn search(&mut self, words: &str) -> usize {
        let Some(needle) = SearchNeedle::new(words) else {
            self.search = None;
            self.close_auto_opened(None);
            return 0;
        };
        let last = self.view.last().map_or(self.log.len(), |place| place.entry);
        let origin = self.search.as_ref().map_or(last, |search| search.origin);
        self.log.take_changed();
        let search = PageSearch::new(&self.log, needle, origin);
        let count = search.len();
        self.search = Some(search);
        self.go_to_match();
        count
    }

    /// Goes to a later match, or an earlier one; wraps around at the ends.
    pub(crate) fn next_match(&mut self, step: i32) {
        let changed = self.log.take_changed();
        if let Some(search) = &mut self.search {
            search.refresh(&self.log, changed);
            search.step(step);
            self.go_to_match();
        }
    }

    /// Number of the current match, from 1, and of all matches.
    pub(crate) fn match_position(&self) -> Option<(usize, usize)> {
        self.search.as_ref()?.position()
    }

    /// Ends the search. The entry of the current match stays open for reading.
    pub(crate) fn clear_search(&mut self) {
        self.search = None;
        self.lent = None;
    }

    /// Goes to the current match: opens its entry if needed, and closes the one opened for an
    /// earlier match.
    fn go_to_match(&mut self) {
        let found = self.search.as_ref().and_then(PageSearch::current);
        self.close_auto_opened(found.map(PageMatch::entry));
        let Some(search) = &mut self.search else {
            return;
        };
        search.is_wanted = true;
        if let Some(found) = found
            && !search.is_visible(&self.log)
        {
            self.log.set_open(found.entry(), true);
            self.lent = Some(found.entry());
        }
    }

    fn close_auto_opened(&mut self, but: Option<usize>) {
        if let Some(lent) = self.lent.take_if(|lent| Some(*lent) != but) {
            self.log.set_open(lent, false);
        }
    }

    /// The text to copy for the selected entry.
    pub(crate) fn copy_selected(&self) -> Option<String> {
        let text = match self.log.entry(self.selected()?)? {
            TranscriptEntry::Prompt { text, .. }
            | TranscriptEntry::Words { text, .. }
            | TranscriptEntry::Note { text, .. } => text.clone(),
            TranscriptEntry::Thinking(thinking) => thinking.text.clone(),
            TranscriptEntry::Folded { text, .. } => text.clone(),
            TranscriptEntry::Undone { title, .. } => title.clone(),
            TranscriptEntry::Call(call) => call.copied(),
            TranscriptEntry::Gone => return None,
        };
        Some(clean(&text).into_owned())
    }

    /// The diff of the selected entry.
    pub(crate) fn selected_diff(&self) -> Option<String> {
        match self.log.entry(self.selected()?)? {
            TranscriptEntry::Call(call) => call.diff(),
            _ => None,
        }
    }
}
