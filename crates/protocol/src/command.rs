//! What a user interface can ask of a running agent. The whole list.

use serde::{Deserialize, Serialize};

use crate::message::Block;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Command {
    /// Begins a turn; while one is under way, the next one.
    Prompt { content: Vec<Block> },
    /// Takes up the last turn where it was cut short.
    Continue,
    /// Stops the model and the tools; what was done stays done.
    Interrupt,
    /// Takes back the last turn: its files and its part of the conversation.
    Undo,
}

impl Command {
    /// A prompt that is only text.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt {
            content: vec![Block::text(text)],
        }
    }
}
