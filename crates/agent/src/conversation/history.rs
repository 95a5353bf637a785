//! The messages of a conversation: added by turns, removed by an undo, brought back by a redo. Pure.

use std::sync::Arc;

use protocol::{Block, Message, Role};

use super::is_empty;

/// Precedes a summary, so that the model does not take it for the user's own words.
const SUMMARY_HEADER: &str = "[What was said after this request was replaced by the following summary. \
                       The files are as it leaves them.]";

#[derive(Debug, Clone, Default)]
pub(super) struct TurnHistory {
    pub(super) messages: Vec<Arc<Message>>,
    /// The start of each turn that was not undone.
    marks: Vec<TurnMark>,
    /// Messages that were replaced by a summary, oldest first.
    replaced: Vec<Vec<Arc<Message>>>,
    /// The last turn was started, but the model did not finish it.
    pub(super) is_cut_short: bool,
}

/// State of the conversation when a turn began.
#[derive(Debug, Clone)]
struct TurnMark {
    turn: u32,
    /// Number of summaries at that time.
    summaries: usize,
    length: usize,
    /// The last message at that time. The turn's prompt joins it if it is a user message.
    last: Option<Arc<Message>>,
    /// The prompt of the first turn, which is kept next to every summary.
    prompt: Option<Arc<[Block]>>,
}

impl TurnHistory {
    pub(super) fn begin_turn(&mut self, turn: u32, prompt: &[Block]) {
        self.marks.push(TurnMark {
            turn,
            summaries: self.replaced.len(),
            length: self.messages.len(),
            last: self.messages.last().cloned(),
            prompt: self.marks.is_empty().then(|| prompt.into()),
        });
        self.is_cut_short = true;
        self.append(Role::User, prompt.iter().cloned());
    }

    /// Adds to the last message if it has the same role, so that roles alternate.
    pub(super) fn append(&mut self, role: Role, blocks: impl IntoIterator<Item = Block>) {
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

    /// Undoes a turn and all after it. Returns whether there was any.
    pub(super) fn undo_from(&mut self, turn: u32) -> bool {
        let Some(position) = self.marks.iter().position(|mark| mark.turn >= turn) else {
            return false;
        };
        let mark = self.marks.swap_remove(position);
        self.marks.truncate(position);
        // Summaries made since the turn began are undone with it.
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

    /// Replaces all messages by the first prompt and a summary.
    pub(super) fn compact(&mut self, summary: &str) {
        let messages = std::mem::take(&mut self.messages);
        self.replaced.push(messages);
        let prompt = self.marks.first().and_then(|mark| mark.prompt.clone());
        let blocks = prompt.iter().flat_map(|prompt| prompt.iter().cloned());
        let summary = Block::text(format!("{SUMMARY_HEADER}\n\n{summary}"));
        self.append(Role::User, blocks.chain([summary]));
    }

    /// The last turn that was not undone.
    pub(super) fn last_turn(&self) -> Option<u32> {
        self.marks.last().map(|mark| mark.turn)
    }
}
