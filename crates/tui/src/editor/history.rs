//! The history of sent messages. Pure.

use super::draft::MessageDraft;
use crate::text::query_regex;

const MAX_HISTORY_LEN: usize = 1_000;

#[derive(Debug, Default)]
pub(crate) struct MessageHistory {
    /// Sent messages, the newest last.
    sent: Vec<MessageDraft>,
    /// Index of the message that is shown.
    shown: Option<usize>,
    /// The draft from before the history was opened.
    unsent: MessageDraft,
}

impl MessageHistory {
    /// Adds a sent message.
    pub(crate) fn add(&mut self, draft: MessageDraft) {
        self.shown = None;
        if draft.is_blank() {
            return;
        }
        self.sent.retain(|other| *other != draft);
        self.sent.push(draft);
        if self.sent.len() > MAX_HISTORY_LEN {
            self.sent.remove(0);
        }
    }

    /// Adds the prompts of a session that is opened. They count as older than the messages sent
    /// here.
    pub(crate) fn open(&mut self, prompts: impl IntoIterator<Item = String>) {
        self.shown = None;
        let sent_here = std::mem::take(&mut self.sent);
        let prompts = prompts.into_iter().map(MessageDraft::plain);
        prompts.chain(sent_here).for_each(|draft| self.add(draft));
    }

    /// The previous message. Saves the unsent draft on the first step.
    pub(super) fn older(&mut self, unsent: MessageDraft) -> Option<MessageDraft> {
        let index = self.shown.unwrap_or(self.sent.len()).checked_sub(1)?;
        if self.shown.is_none() {
            self.unsent = unsent;
        }
        self.shown = Some(index);
        self.sent.get(index).cloned()
    }

    /// The next message, and after the newest one the unsent draft.
    pub(super) fn newer(&mut self) -> Option<MessageDraft> {
        let index = self.shown? + 1;
        let next = self.sent.get(index).cloned();
        self.shown = next.is_some().then_some(index);
        next.or_else(|| Some(std::mem::take(&mut self.unsent)))
    }

    /// Leaves the history: the shown message becomes the draft.
    pub(super) fn leave(&mut self) {
        self.shown = None;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Whether an unchanged message of the history is shown.
    pub(crate) fn is_open(&self) -> bool {
        self.shown.is_some()
    }

    /// The next message that contains `query`, older or newer than `from`, and its index.
    pub(crate) fn find(
        &self,
        query: &str,
        from: Option<usize>,
        step: i32,
    ) -> Option<(usize, MessageDraft)> {
        let query = query_regex(query);
        let is_match = |(_, draft): &(usize, &MessageDraft)| {
            let query = query.as_ref();
            query.is_none_or(|query| query.is_match(&draft.full()))
        };
        let count = self.sent.len();
        let drafts = self.sent.iter().enumerate();
        let found = if step < 0 {
            drafts.take(from.unwrap_or(count)).rev().find(is_match)
        } else {
            drafts
                .skip(from.map_or(count, |from| from + 1))
                .find(is_match)
        };
        found.map(|(index, draft)| (index, draft.clone()))
    }
}
