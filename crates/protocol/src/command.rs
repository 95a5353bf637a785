//! The commands that a user interface can send to a running agent. The complete list.

use serde::{Deserialize, Serialize};

use crate::approval::Decision;
use crate::message::Block;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum AgentCommand {
    /// Starts a turn. If one is running, the prompt is queued for the next.
    Prompt { content: Vec<Block> },
    /// Continues the last turn after it was interrupted.
    Continue,
    /// Stops the model and the tools. Completed work is kept.
    Interrupt,
    /// Reverts the last turn: its files and its part of the conversation.
    Undo,
    /// Reverts the last undo, if no turn was started since.
    Redo,
    /// Replaces the conversation so far by a summary, for the model only. The events are kept.
    Compact,
    /// Switches to another model from the next request on.
    UseModel { name: String },
    /// Allows a host for the rest of the session: `example.com`, `*.example.com`, `host:port`.
    AllowHost { host: String },
    /// Answers [`crate::EventKind::Asked`].
    Decide { question: u32, decision: Decision },
    /// Requests the names of the workspace's files: [`crate::EventKind::Files`].
    ListFiles,
    /// Requests the changes made by the session: [`crate::EventKind::Differs`].
    Diff,
}

impl AgentCommand {
    /// A prompt that consists of text only.
    pub fn prompt(text: impl Into<String>) -> Self {
        Self::Prompt {
            content: vec![Block::text(text)],
        }
    }
}
