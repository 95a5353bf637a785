//! What was said before, to be said again. Pure.

use super::draft::Draft;

/// Messages that are remembered.
const MOST: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct History {
    /// The newest last.
    said: Vec<Draft>,
    /// The one that is being looked at.
    place: Option<usize>,
    /// What was being written before.
    kept: Draft,
}

impl History {
    /// Something was said.
    pub(crate) fn add(&mut self, draft: Draft) {
        self.place = None;
        if draft.is_blank() {
            return;
        }
        self.said.retain(|other| *other != draft);
        self.said.push(draft);
        if self.said.len() > MOST {
            self.said.remove(0);
        }
    }

    /// What was said in a session that is opened now: older than what was said here.
    pub(crate) fn open(&mut self, prompts: impl IntoIterator<Item = String>) {
        self.place = None;
        let here = std::mem::take(&mut self.said);
        for draft in prompts.into_iter().map(Draft::plain).chain(here) {
            self.add(draft);
        }
    }

    /// The one before, with what is being written kept for later.
    pub(super) fn older(&mut self, written: impl FnOnce() -> Draft) -> Option<&Draft> {
        let place = self.place.unwrap_or(self.said.len()).checked_sub(1)?;
        if self.place.is_none() {
            self.kept = written();
        }
        self.place = Some(place);
        self.said.get(place)
    }

    /// The one after, and at last what was being written.
    pub(super) fn newer(&mut self) -> Option<Draft> {
        let place = self.place? + 1;
        match self.said.get(place) {
            Some(draft) => {
                self.place = Some(place);
                Some(draft.clone())
            }
            None => {
                self.place = None;
                Some(std::mem::take(&mut self.kept))
            }
        }
    }

    /// What is shown is being written from now on.
    pub(super) fn leave(&mut self) {
        self.place = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Something that was said is being looked at, as it was.
    pub(crate) fn is_open(&self) -> bool {
        self.place.is_some()
    }

    /// The next one with the words, older than a place or newer, and where it is.
    pub(crate) fn find(
        &self,
        words: &str,
        from: Option<usize>,
        step: i32,
    ) -> Option<(usize, Draft)> {
        let is_exact = words.chars().any(char::is_uppercase);
        let small = words.to_lowercase();
        let has_words = |place: &usize| {
            let said = self.said.get(*place).map(Draft::full).unwrap_or_default();
            if is_exact {
                said.contains(words)
            } else {
                said.to_lowercase().contains(&small)
            }
        };
        let all = self.said.len();
        let place = if step < 0 {
            (0..from.unwrap_or(all).min(all)).rev().find(has_words)
        } else {
            (from.map_or(all, |from| from + 1)..all).find(has_words)
        }?;
        Some((place, self.said.get(place)?.clone()))
    }
}
