//! A conversation as a fold over a session's lasting events. Pure.
//!
//! [`Conversation::messages`] is always a history that providers accept, even if a turn was cut short:
//! roles alternate, no message is empty, and every call has exactly one result in the next message.

mod history;

use std::collections::HashMap;
use std::sync::Arc;

use llm::estimate_message;
use protocol::{Block, CallId, Checkpoint, EventKind, Message, Moment, Outcome, Role, Stop};

use self::history::TurnHistory;

/// The result of a call whose end was never recorded.
const LOST_CALL_RESULT: &str = "No result: hotcell was stopped while this ran. It may or may not have taken \
                    effect; look before you do it again.";

#[derive(Debug, Clone, Default)]
pub struct Conversation {
    history: TurnHistory,
    /// Calls of the last reply, in its order, with the results received so far.
    open: Vec<(CallId, Option<Block>)>,
    /// Undos that can be redone; the most recent is last.
    undone: Vec<UndoRecord>,
    last_turn: u32,
    /// By turn: the checkpoint before its first change and the one after its last.
    checkpoints: HashMap<u32, (Checkpoint, Option<Checkpoint>)>,
    first_checkpoint: Option<Checkpoint>,
    last_checkpoint: u32,
}

/// An undo, with everything needed to redo it.
#[derive(Debug, Clone)]
pub(crate) struct UndoRecord {
    /// The first turn that it undid.
    pub(crate) turn: u32,
    /// The workspace before the undo.
    pub(crate) checkpoint: Checkpoint,
    /// Files of the turn that the undo did not restore.
    pub(crate) left: Vec<String>,
    history: TurnHistory,
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
                self.close_calls();
                self.undone.clear();
                self.last_turn = *turn;
                self.history.begin_turn(*turn, prompt);
            }
            EventKind::TurnContinued { .. } => {
                self.close_calls();
                self.undone.clear();
                self.history.is_cut_short = true;
            }
            EventKind::Replied { content, stop, .. } => self.add_reply(content, stop),
            EventKind::ToolEnded {
                call,
                content,
                is_error,
                ..
            } => self.add_result(call, content, *is_error),
            EventKind::Noted { text } => {
                self.close_calls();
                self.history.append(Role::User, [Block::text(text)]);
            }
            EventKind::CheckpointMade {
                turn,
                moment,
                checkpoint,
            } => {
                self.note_checkpoint_number(checkpoint);
                self.first_checkpoint
                    .get_or_insert_with(|| checkpoint.clone());
                self.set_checkpoint(*turn, *moment, checkpoint);
            }
            EventKind::TurnEnded { outcome, .. } => {
                self.close_calls();
                self.history.is_cut_short = *outcome != Outcome::Done;
            }
            EventKind::Undone {
                turn,
                checkpoint,
                left,
                ..
            } => {
                self.note_checkpoint_number(checkpoint);
                self.close_calls();
                let history = self.history.clone();
                if self.history.undo_from(*turn) {
                    self.undone.push(UndoRecord {
                        turn: *turn,
                        checkpoint: checkpoint.clone(),
                        left: left.clone(),
                        history,
                    });
                }
            }
            EventKind::Redone { checkpoint, .. } => {
                self.note_checkpoint_number(checkpoint);
                self.close_calls();
                if let Some(undo) = self.undone.pop() {
                    self.history = undo.history;
                }
            }
            EventKind::Compacted { summary, .. } => {
                self.close_calls();
                self.undone.clear();
                self.history.compact(summary);
            }
            _ => {}
        }
    }

    fn note_checkpoint_number(&mut self, checkpoint: &Checkpoint) {
        self.last_checkpoint = self.last_checkpoint.max(checkpoint.number);
    }

    /// A continued turn keeps its first `Before` checkpoint and gets a new `After` checkpoint when it
    /// ends.
    fn set_checkpoint(&mut self, turn: u32, moment: Moment, checkpoint: &Checkpoint) {
        match (moment, self.checkpoints.get_mut(&turn)) {
            (Moment::Before, None) => {
                // A turn that was killed has no `After` checkpoint: the next `Before` checkpoint is used.
                let earlier = self.checkpoints.values_mut();
                for (_, after) in earlier.filter(|(_, after)| after.is_none()) {
                    *after = Some(checkpoint.clone());
                }
                self.checkpoints.insert(turn, (checkpoint.clone(), None));
            }
            // The turn was cut short and continues: its recorded end no longer holds.
            (Moment::Before, Some((_, after))) => *after = None,
            (Moment::After, Some((_, after))) => *after = Some(checkpoint.clone()),
            (Moment::After, None) => {}
        }
    }

    fn add_reply(&mut self, content: &[Block], stop: &Stop) {
        self.close_calls();
        // Providers do not accept refused text in later requests.
        if *stop == Stop::Refusal {
            return;
        }
        let mut blocks: Vec<Block> = content.to_vec();
        while blocks
            .last()
            .is_some_and(|block| is_empty(block) || is_thinking(block))
        {
            blocks.pop();
        }
        // Sent back as the last message, so that the provider continues it.
        if *stop == Stop::PauseTurn
            && let Some(Block::Text { text, .. }) = blocks.last_mut()
        {
            text.truncate(text.trim_end().len());
        }
        self.history.append(Role::Assistant, blocks);
        self.open = content
            .iter()
            .filter_map(|block| match block {
                Block::ToolUse { id, .. } => Some((id.clone(), None)),
                _ => None,
            })
            .collect();
    }

    fn add_result(&mut self, call: &CallId, content: &[Block], is_error: bool) {
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
            self.close_calls();
        }
    }

    /// Puts the results into one message. A call without a result gets [`LOST_CALL_RESULT`] as its result.
    fn close_calls(&mut self) {
        let results = std::mem::take(&mut self.open);
        let lost = |id| Block::ToolResult {
            tool_use_id: id,
            content: vec![Block::text(LOST_CALL_RESULT)],
            is_error: true,
        };
        let results: Vec<Block> = results
            .into_iter()
            .map(|(id, result)| result.unwrap_or_else(|| lost(id)))
            .collect();
        self.history.append(Role::User, results);
    }

    /// The messages to send. Complete only between replies: open calls have no result in it yet.
    pub fn messages(&self) -> &[Arc<Message>] {
        &self.history.messages
    }

    /// Whether the model is to reply next: the last message is a prompt or holds results.
    pub fn awaits_reply(&self) -> bool {
        self.open.is_empty()
            && self
                .history
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
        self.history.is_cut_short
    }

    /// The number of the last turn, undone or not; 0 before the first.
    pub fn last_turn(&self) -> u32 {
        self.last_turn
    }

    /// The turn that an undo would revert.
    pub fn undoable(&self) -> Option<u32> {
        self.history.last_turn()
    }

    /// The undo that a redo would revert.
    pub(crate) fn redoable_undo(&self) -> Option<&UndoRecord> {
        self.undone.last()
    }

    /// The conversation with its messages replaced by a summary.
    pub(crate) fn with_summary(&self, summary: &str) -> Self {
        let mut conversation = self.clone();
        conversation.close_calls();
        conversation.history.compact(summary);
        conversation
    }

    /// Estimated size of the messages, for comparison with another conversation.
    pub(crate) fn size(&self) -> u64 {
        self.history
            .messages
            .iter()
            .map(|message| estimate_message(message))
            .sum()
    }

    /// The workspace before a turn that changed anything and, if the turn ended, after it.
    pub fn checkpoints(&self, turn: u32) -> Option<(&Checkpoint, Option<&Checkpoint>)> {
        let (before, after) = self.checkpoints.get(&turn)?;
        Some((before, after.as_ref()))
    }

    /// The workspace before the session's first change, if there was one.
    pub(crate) fn first_checkpoint(&self) -> Option<&Checkpoint> {
        self.first_checkpoint.as_ref()
    }

    /// The number of the last checkpoint; 0 before the first.
    pub fn last_checkpoint(&self) -> u32 {
        self.last_checkpoint
    }
}

/// Providers refuse a message that ends with thinking.
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
