//! What a user interface can ask of a running agent. The whole list.

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
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
    /// Takes back the last undo, as long as nothing was said after it.
    Redo,
    /// Puts a summary in the place of the conversation so far, for the model. The events stay.
    Compact,
    /// From the next request on, another model.
    UseModel { name: String },
    /// Opens a host to the sandbox, for the rest of the session: `example.com`, `*.example.com`,
    /// `host:port`.
    AllowHost { host: String },
    /// Answers [`crate::EventKind::Asked`].
    Decide { question: u32, decision: Decision },
    /// Asks for the names of the workspace's files: [`crate::EventKind::Files`].
    ListFiles,
    /// Asks what the session has changed: [`crate::EventKind::Differs`].
    Diff,
}

impl Command {
    /// A prompt that is only text.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt {
            content: vec![Block::text(text)],
        }
    }
}
