//! A conversation as a fold over a session's lasting events. Pure.
//!
//! Whatever was cut short, [`Conversation::messages`] is what a provider accepts: roles alternate,
//! no message is empty, and every call has exactly one result in the very next message.

use std::collections::HashMap;
use std::sync::Arc;

use protocol::{Block, CallId, Checkpoint, EventKind, Message, Moment, Outcome, Role, Stop};

/// For a call whose end was never recorded.
const LOST: &str = "No result: hotcell was stopped while this ran. It may or may not have taken \
                    effect; look before you do it again.";

#[derive(Debug, Clone, Default)]
pub struct Conversation {
    messages: Vec<Arc<Message>>,
    /// Calls of the last reply, in its order, with the results that came so far.
    open: Vec<(CallId, Option<Block>)>,
    /// Where each turn began that was not taken back.
    marks: Vec<Mark>,
    last_turn: u32,
    /// By turn: before its first change, and after its last.
    checkpoints: HashMap<u32, (Checkpoint, Option<Checkpoint>)>,
    last_checkpoint: u32,
    /// The last turn was begun, and the model did not get to its end.
    is_cut_short: bool,
}

/// What the conversation was when a turn began.
#[derive(Debug, Clone)]
struct Mark {
    turn: u32,
    length: usize,
    /// The turn's words may join this message, if it is a user's.
    last: Option<Arc<Message>>,
}

impl Conversation {
    pub fn fold<'a>(events: impl IntoIterator<Item = &'a EventKind>) -> Self {
        let mut conversation = Self::default();
        for event in events {
            conversation.apply(event);
        }
        conversation
    }

    pub fn apply(&mut self, event: &EventKind) {
        match event {
            EventKind::TurnStarted { turn, prompt } => {
                self.settle();
                self.marks.push(Mark {
                    turn: *turn,
                    length: self.messages.len(),
                    last: self.messages.last().cloned(),
                });
                self.last_turn = *turn;
                self.is_cut_short = true;
                self.say(Role::User, prompt.iter().cloned());
            }
            EventKind::TurnContinued { .. } => {
                self.settle();
                self.is_cut_short = true;
            }
            EventKind::Replied { content, stop, .. } => self.reply(content, stop),
            EventKind::ToolEnded {
                call,
                content,
                is_error,
                ..
            } => self.answer(call, content, *is_error),
            EventKind::Noted { text } => {
                self.settle();
                self.say(Role::User, [Block::text(text)]);
            }
            EventKind::CheckpointMade {
                turn,
                moment,
                checkpoint,
            } => {
                self.last_checkpoint = self.last_checkpoint.max(checkpoint.number);
                self.keep_checkpoint(*turn, *moment, checkpoint);
            }
            EventKind::TurnEnded { outcome, .. } => {
                self.settle();
                self.is_cut_short = *outcome != Outcome::Done;
            }
            EventKind::Undone {
                turn, checkpoint, ..
            } => {
                self.last_checkpoint = self.last_checkpoint.max(checkpoint.number);
                self.take_back(*turn);
            }
            _ => {}
        }
    }

    /// A turn that is taken up again was begun before its first checkpoint, and ends after its
    /// last.
    fn keep_checkpoint(&mut self, turn: u32, moment: Moment, checkpoint: &Checkpoint) {
        match (moment, self.checkpoints.get_mut(&turn)) {
            (Moment::Before, None) => {
                // A turn that died before its end has left no more than the next one found.
                let earlier = self.checkpoints.values_mut();
                for (_, after) in earlier.filter(|(_, after)| after.is_none()) {
                    *after = Some(checkpoint.clone());
                }
                self.checkpoints.insert(turn, (checkpoint.clone(), None));
            }
            // What the turn did before it was cut short is no longer its end.
            (Moment::Before, Some((_, after))) => *after = None,
            (Moment::After, Some((_, after))) => *after = Some(checkpoint.clone()),
            (Moment::After, None) => {}
        }
    }

    fn reply(&mut self, content: &[Block], stop: &Stop) {
        self.settle();
        // Providers do not want refused words back.
        if *stop == Stop::Refusal {
            return;
        }
        let mut said: Vec<Block> = content.to_vec();
        while said
            .last()
            .is_some_and(|block| is_empty(block) || is_thinking(block))
        {
            said.pop();
        }
        // Sent back as the last message, for the provider to go on with.
        if *stop == Stop::PauseTurn
            && let Some(Block::Text { text, .. }) = said.last_mut()
        {
            text.truncate(text.trim_end().len());
        }
        self.say(Role::Assistant, said);
        self.open = content
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { id, .. } => Some((id.clone(), None)),
                _ => None,
            })
            .collect();
    }

    fn answer(&mut self, call: &CallId, content: &[Block], is_error: bool) {
        let waiting = |(id, result): &&mut (CallId, Option<Block>)| id == call && result.is_none();
        if let Some((id, result)) = self.open.iter_mut().find(waiting) {
            *result = Some(Block::ToolResult {
                tool_use_id: id.clone(),
                content: content
                    .iter()
                    .filter(|block| !is_empty(block))
                    .cloned()
                    .collect(),
                is_error,
            });
        }
        if self.open.iter().all(|(_, result)| result.is_some()) {
            self.settle();
        }
    }

    /// Puts the results into one message, with one made up for every call that has none.
    fn settle(&mut self) {
        let results = std::mem::take(&mut self.open);
        let lost = |id| Block::ToolResult {
            tool_use_id: id,
            content: vec![Block::text(LOST)],
            is_error: true,
        };
        let results: Vec<Block> = results
            .into_iter()
            .map(|(id, result)| result.unwrap_or_else(|| lost(id)))
            .collect();
        self.say(Role::User, results);
    }

    /// Adds to the last message if it has the same role, so that roles alternate.
    fn say(&mut self, role: Role, blocks: impl IntoIterator<Item = Block>) {
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

    fn take_back(&mut self, turn: u32) {
        self.settle();
        let Some(place) = self.marks.iter().position(|mark| mark.turn >= turn) else {
            return;
        };
        let mark = self.marks.swap_remove(place);
        self.marks.truncate(place);
        self.messages.truncate(mark.length);
        if let (Some(last), Some(was)) = (self.messages.last_mut(), mark.last) {
            *last = was;
        }
        self.is_cut_short = false;
    }

    /// What to send. Complete only between replies: open calls have no result in it yet.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.messages
    }

    /// Whether the model has the word: the last message is a person's or holds results.
    pub fn awaits_reply(&self) -> bool {
        self.open.is_empty()
            && self
                .messages
                .last()
                .is_some_and(|message| message.role == Role::User)
    }

    /// Calls of the last reply that have no result yet, in order.
    pub fn open_calls(&self) -> impl Iterator<Item = &CallId> {
        self.open
            .iter()
            .filter(|(_, result)| result.is_none())
            .map(|(id, _)| id)
    }

    /// Whether the last turn was cut short: not ended, or ended before the model was done.
    pub fn can_continue(&self) -> bool {
        self.is_cut_short
    }

    /// The number of the last turn, taken back or not; 0 before the first.
    pub fn last_turn(&self) -> u32 {
        self.last_turn
    }

    /// The turn that an undo would take back.
    pub fn undoable(&self) -> Option<u32> {
        self.marks.last().map(|mark| mark.turn)
    }

    /// The workspace before a turn and, if it came to its end, after it; if it changed anything.
    pub fn checkpoints(&self, turn: u32) -> Option<(&Checkpoint, Option<&Checkpoint>)> {
        let (before, after) = self.checkpoints.get(&turn)?;
        Some((before, after.as_ref()))
    }

    /// The number of the last checkpoint; 0 before the first.
    pub fn last_checkpoint(&self) -> u32 {
        self.last_checkpoint
    }
}

/// Providers refuse a message that ends with it: what the thinking led to was cut off.
fn is_thinking(block: &Block) -> bool {
    matches!(
        block,
        Block::Thinking { .. } | Block::RedactedThinking { .. }
    )
}

/// Providers refuse empty text.
pub(crate) fn is_empty(block: &Block) -> bool {
    block.as_text().is_some_and(|text| text.trim().is_empty())
}

#[cfg(test)]
mod tests;
