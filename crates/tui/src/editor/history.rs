//! The history of sent messages. Pure.

use super::draft::MessageDraft;

const MAX_HISTORY_LEN: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct MessageHistory {
    /// Sent messages, the newest last.
    said: Vec<MessageDraft>,
    /// Index of the message that is shown.
    place: Option<usize>,
    /// The draft from before the history was opened.
    kept: MessageDraft,
}

impl MessageHistory {
    /// Adds a sent message.
    pub(crate) fn add(&mut self, draft: MessageDraft) {
        self.place = None;
        if draft.is_blank() {
            return;
        }
        self.said.retain(|other| *other != draft);
        self.said.push(draft);
        if self.said.len() > MAX_HISTORY_LEN {
            self.said.remove(0);
        }
    }

    /// Adds the prompts of a session that is opened. They count as older than the messages sent
    /// here.
    pub(crate) fn open(&mut self, prompts: impl IntoIterator<Item = String>) {
        self.place = None;
        let here = std::mem::take(&mut self.said);
        for draft in prompts.into_iter().map(MessageDraft::plain).chain(here) {
            self.add(draft);
        }
    }

    /// The previous message. Saves the draft on the first step.
    pub(super) fn older(
        &mut self,
        written: impl FnOnce() -> MessageDraft,
    ) -> Option<&MessageDraft> {
        let place = self.place.unwrap_or(self.said.len()).checked_sub(1)?;
        if self.place.is_none() {
            self.kept = written();
        }
        self.place = Some(place);
        self.said.get(place)
    }

    /// The next message, and after the newest one the saved draft.
    pub(super) fn newer(&mut self) -> Option<MessageDraft> {
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

    /// Leaves the history: the shown message becomes the draft.
    pub(super) fn leave(&mut self) {
        self.place = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.said.is_empty()
    }

    /// Whether an unchanged message of the history is shown.
    pub(crate) fn is_open(&self) -> bool {
        self.place.is_some()
    }

    /// The next message that contains `words`, older or newer than `from`, and its index.
    pub(crate) fn find(
        &self,
        words: &str,
        from: Option<usize>,
        step: i32,
    ) -> Option<(usize, MessageDraft)> {
        let is_exact = words.chars().any(char::is_uppercase);
        let small = words.to_lowercase();
        let has_words = |place: &usize| {
            let said = self
                .said
                .get(*place)
                .map(MessageDraft::full)
                .unwrap_or_default();
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
