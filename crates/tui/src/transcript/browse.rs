//! Selecting, opening, searching and copying entries.

use std::ops::Range;

use super::Transcript;
use super::entry::TranscriptEntry;
use super::page_layout::LinePosition;
use super::search::PageSearch;
use super::view::RevealTarget;
use crate::text::{clean, query_regex};

impl Transcript {
    /// Moves the selection by `step` entries; positive is down. Without a selection, selects the
    /// last entry that can be opened.
    pub(crate) fn select(&mut self, step: i32) {
        let log = &self.log;
        let shown = |range: Range<usize>| range.filter(|index| log.is_shown(*index));
        let all = 0..log.len();
        let skipped = (step.unsigned_abs() as usize).saturating_sub(1);
        let next = match self.selected {
            None => all.clone().rev().find(|index| log.opens(*index)),
            Some(_) if step == 0 => self.selected(),
            Some(selected) if step > 0 => shown(selected + 1..all.end).nth(skipped),
            Some(selected) => shown(0..selected).nth_back(skipped),
        };
        self.selected = next.or_else(|| {
            if self.selected.is_some() && step < 0 {
                shown(all).next()
            } else {
                shown(all).next_back()
            }
        });
        if let Some(entry) = self.selected {
            let head = LinePosition::head(entry);
            self.view.reveal(RevealTarget::Line(head));
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
        let clicked = self.view.positions.get(usize::from(row)).copied();
        let clicked = clicked.filter(|position| position.block > 0);
        clicked.is_some_and(|position| self.toggle(position.entry))
    }

    /// Opens or closes an entry. Its first line stays on its row, or is scrolled into view.
    fn toggle(&mut self, index: usize) -> bool {
        if !self.log.opens(index) {
            return false;
        }
        let is_open = self.log.is_open(index);
        self.log.set_open(index, !is_open);
        self.auto_opened.take_if(|opened| *opened == index);
        let row = self.view.row_of(index).unwrap_or(0);
        self.view.reveal(RevealTarget::Keep { entry: index, row });
        true
    }

    /// Searches all entries and goes to the nearest match above the end of the view in which the
    /// search began. Returns the number of matches.
    pub(crate) fn search(&mut self, query: &str) -> usize {
        let Some(query) = query_regex(query) else {
            self.search = None;
            self.close_auto_opened(None);
            return 0;
        };
        let last = self.view.positions.last();
        let last = last.map_or(self.log.len(), |position| position.entry);
        let origin = self.search.as_ref().map_or(last, |search| search.origin);
        self.log.take_changed();
        let search = PageSearch::new(&self.log, query, origin);
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
        self.auto_opened = None;
    }

    /// Goes to the current match: opens its entry if needed, and closes the one opened for an
    /// earlier match.
    fn go_to_match(&mut self) {
        let found = self.search.as_ref().and_then(PageSearch::current);
        self.close_auto_opened(found.map(|found| found.entry));
        let Some(search) = &mut self.search else {
            return;
        };
        search.reveals_match = true;
        if let Some(found) = found
            && !search.is_visible(&self.log)
        {
            self.log.set_open(found.entry, true);
            self.auto_opened = Some(found.entry);
        }
    }

    fn close_auto_opened(&mut self, except: Option<usize>) {
        let opened = self.auto_opened.take_if(|opened| Some(*opened) != except);
        if let Some(opened) = opened {
            self.log.set_open(opened, false);
        }
    }

    /// The text to copy for the selected entry.
    pub(crate) fn copy_selected(&self) -> Option<String> {
        let text = match self.log.entry(self.selected()?)? {
            TranscriptEntry::Prompt { text, .. }
            | TranscriptEntry::Reply { text, .. }
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
