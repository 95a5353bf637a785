//! Choosing, opening, searching and copying: what a person does with the page beside scrolling.

use super::Transcript;
use super::desk::Place;
use super::entry::Entry;
use super::finding::Needle;
use super::search::{Found, Search};
use super::view::Reveal;
use crate::text::clean;

impl Transcript {
    /// Chooses the entry so many steps further down, or up; the last one that opens, if none is
    /// chosen yet.
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
            self.view.reveal(Reveal::Line(Place::head(entry)));
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

    /// A click on a row of the view. True if something opened or closed.
    pub(crate) fn click(&mut self, row: u16) -> bool {
        let place = self.view.places.get(usize::from(row)).copied();
        match place.filter(|place| place.block > 0) {
            Some(place) => self.toggle(place.entry),
            None => false,
        }
    }

    /// Its first line stays where it is, or comes into view.
    fn toggle(&mut self, index: usize) -> bool {
        if !self.log.opens(index) {
            return false;
        }
        let is_open = self.log.is_open(index);
        self.log.set_open(index, !is_open);
        self.lent.take_if(|lent| *lent == index);
        let row = self.view.row_of(index).unwrap_or(0);
        self.view.reveal(Reveal::Keep { entry: index, row });
        true
    }

    /// Looks for words everywhere, and goes to the nearest place above the end of the view in which
    /// the search began. Says how many places there are.
    pub(crate) fn search(&mut self, words: &str) -> usize {
        let Some(needle) = Needle::new(words) else {
            self.search = None;
            self.close_lent(None);
            return 0;
        };
        let last = self.view.last().map_or(self.log.len(), |place| place.entry);
        let origin = self.search.as_ref().map_or(last, |search| search.origin);
        self.log.take_changed();
        let search = Search::new(&self.log, needle, origin);
        let count = search.len();
        self.search = Some(search);
        self.go_to_match();
        count
    }

    /// Goes to a later place, or an earlier one; around at the ends.
    pub(crate) fn next_match(&mut self, step: i32) {
        let changed = self.log.take_changed();
        if let Some(search) = &mut self.search {
            search.refresh(&self.log, changed);
            search.step(step);
            self.go_to_match();
        }
    }

    /// Which place was gone to, from 1 on, of how many.
    pub(crate) fn match_position(&self) -> Option<(usize, usize)> {
        self.search.as_ref()?.position()
    }

    /// What was gone to stays open: somebody is reading it.
    pub(crate) fn clear_search(&mut self) {
        self.search = None;
        self.lent = None;
    }

    /// Opens what has to be open for the words to be seen, and closes what was opened for others.
    fn go_to_match(&mut self) {
        let found = self.search.as_ref().and_then(Search::current);
        self.close_lent(found.map(Found::entry));
        let Some(search) = &mut self.search else {
            return;
        };
        search.is_wanted = true;
        if let Some(found) = found
            && !search.is_in_sight(&self.log)
        {
            self.log.set_open(found.entry(), true);
            self.lent = Some(found.entry());
        }
    }

    fn close_lent(&mut self, but: Option<usize>) {
        if let Some(lent) = self.lent.take_if(|lent| Some(*lent) != but) {
            self.log.set_open(lent, false);
        }
    }

    /// What is copied of the selected entry.
    pub(crate) fn copy_selected(&self) -> Option<String> {
        let text = match self.log.entry(self.selected()?)? {
            Entry::Prompt { text, .. } | Entry::Words { text, .. } | Entry::Note { text, .. } => {
                text.clone()
            }
            Entry::Thinking(thinking) => thinking.text.clone(),
            Entry::Folded { text, .. } => text.clone(),
            Entry::Undone { title, .. } => title.clone(),
            Entry::Call(call) => call.copied(),
            Entry::Gone => return None,
        };
        Some(clean(&text).into_owned())
    }

    /// What the selected entry changed.
    pub(crate) fn selected_diff(&self) -> Option<String> {
        match self.log.entry(self.selected()?)? {
            Entry::Call(call) => call.diff(),
            _ => None,
        }
    }
}
