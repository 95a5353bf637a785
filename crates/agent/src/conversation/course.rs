//! The course of a conversation: what a turn adds, an undo takes away and a redo gives back. Pure.

use std::sync::Arc;

use protocol::{Block, Message, Role};

use super::is_empty;

/// Stands before a summary, so that nobody takes it for the person's own words.
const SUMMARY: &str = "[What was said after this request was replaced by the following summary. \
                       The files are as it leaves them.]";

#[derive(Debug, Clone, Default)]
pub(super) struct Course {
    pub(super) messages: Vec<Arc<Message>>,
    /// Where each turn began that was not taken back.
    marks: Vec<Mark>,
    /// What the messages were when a summary took their place, the oldest first.
    replaced: Vec<Vec<Arc<Message>>>,
    /// The last turn was begun, and the model did not get to its end.
    pub(super) is_cut_short: bool,
}

/// What the conversation was when a turn began.
#[derive(Debug, Clone)]
struct Mark {
    turn: u32,
    /// Summaries so far.
    summaries: usize,
    length: usize,
    /// The turn's words may join this message, if it is a user's.
    last: Option<Arc<Message>>,
    /// The words of the first turn, which no summary loses.
    prompt: Option<Arc<[Block]>>,
}

impl Course {
    pub(super) fn begin(&mut self, turn: u32, prompt: &[Block]) {
        self.marks.push(Mark {
            turn,
            summaries: self.replaced.len(),
            length: self.messages.len(),
            last: self.messages.last().cloned(),
            prompt: self.marks.is_empty().then(|| prompt.into()),
        });
        self.is_cut_short = true;
        self.say(Role::User, prompt.iter().cloned());
    }

    /// Adds to the last message if it has the same role, so that roles alternate.
    pub(super) fn say(&mut self, role: Role, blocks: impl IntoIterator<Item = Block>) {
        let mut blocks = blocks
            .into_iter()
            .filter(|block| !is_empty(block))
            .peekable();
        if blocks.peek().is_none() {
            return;
        }
        match self.messages.last_mut() {
            Some(last) if last.role == role => Arc::make_mut(last).content.extend(blocks),
            _ => self.messages.push(Arc::new(Message {
                role,
                content: blocks.collect(),
            })),
        }
    }

    /// Takes back a turn and all after it; says whether there was any.
    pub(super) fn take_back(&mut self, turn: u32) -> bool {
        let Some(place) = self.marks.iter().position(|mark| mark.turn >= turn) else {
            return false;
        };
        let mark = self.marks.swap_remove(place);
        self.marks.truncate(place);
        // Summaries after the beginning of the turn are taken back with it.
        if let Some(messages) = self.replaced.drain(mark.summaries..).next() {
            self.messages = messages;
        }
        self.messages.truncate(mark.length);
        if let (Some(last), Some(was)) = (self.messages.last_mut(), mark.last) {
            *last = was;
        }
        self.is_cut_short = false;
        true
    }

    /// Puts the first prompt and a summary in the place of all messages.
    pub(super) fn compact(&mut self, summary: &str) {
        let messages = std::mem::take(&mut self.messages);
        self.replaced.push(messages);
        let prompt = self.marks.first().and_then(|mark| mark.prompt.clone());
        let blocks = prompt.iter().flat_map(|prompt| prompt.iter().cloned());
        let summary = Block::text(format!("{SUMMARY}\n\n{summary}"));
        self.say(Role::User, blocks.chain([summary]));
    }

    /// The last turn that was not taken back.
    pub(super) fn last_turn(&self) -> Option<u32> {
        self.marks.last().map(|mark| mark.turn)
    }
}
