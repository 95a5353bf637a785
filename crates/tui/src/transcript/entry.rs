//! One thing that happened.

use protocol::{BackgroundJob, CallId, Change, Kept};
use serde_json::Value;

use crate::text::Markdown;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A person's words.
    Prompt {
        text: String,
        images: usize,
    },
    /// The model's words.
    Words {
        markdown: Markdown,
    },
    Thinking {
        text: String,
    },
    Call(Box<Call>),
    /// Words of the harness or of the UI.
    Note {
        text: String,
        tone: Tone,
    },
}

/// A tool call, from the first piece of its input to its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) name: String,
    /// One line for a person.
    pub(crate) summary: String,
    pub(crate) input: Value,
    pub(crate) state: CallState,
    /// What it printed so far, its end at least; then its result.
    pub(crate) output: String,
    pub(crate) changes: Vec<Change>,
    pub(crate) kept: Option<Kept>,
    /// What goes on of it.
    pub(crate) background: Option<BackgroundJob>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CallState {
    /// The model is still writing its input.
    Written,
    Running,
    Ended {
        is_error: bool,
        millis: u64,
    },
}

/// How a note is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Error,
}
