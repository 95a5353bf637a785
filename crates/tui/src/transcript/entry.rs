//! An entry of the transcript as text. Independent of its layout.

use jiff::Timestamp;

use super::call::CallEntry;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum TranscriptEntry {
    /// A message of the user.
    Prompt {
        text: String,
        images: usize,
    },
    /// A reply of the model, as markdown.
    Reply {
        text: String,
        is_whole: bool,
    },
    Thinking(ThinkingEntry),
    Call(Box<CallEntry>),
    /// A note of the agent or of the UI.
    Note {
        text: String,
        tone: NoteTone,
    },
    /// One line that can be expanded.
    Folded {
        title: String,
        text: String,
    },
    /// Undone turns: the entries before this one that it hides.
    Undone {
        title: String,
        left: Vec<String>,
    },
    /// A removed entry. Its index stays, so that all others keep theirs.
    Gone,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ThinkingEntry {
    pub(crate) text: String,
    /// Time of the first piece; unknown if read from the store.
    pub(crate) started_at: Option<Timestamp>,
    /// Duration in milliseconds, once it has ended.
    pub(crate) millis: Option<u64>,
    pub(crate) is_over: bool,
}

/// The kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoteTone {
    Plain,
    Good,
    Warning,
    Error,
}

/// A prompt with more lines is shown in part.
pub(super) const MAX_PROMPT_LINES: usize = 12;
/// A prompt with more bytes is shown in part too: it may be one long line.
const MAX_PROMPT_BYTES: usize = 4096;

impl TranscriptEntry {
    pub(super) fn note(text: impl Into<String>, tone: NoteTone) -> Self {
        Self::Note {
            text: text.into(),
            tone,
        }
    }

    /// Whether it can be expanded.
    pub(super) fn opens(&self) -> bool {
        match self {
            Self::Prompt { text, .. } => is_long(text),
            Self::Thinking(thinking) => !thinking.text.is_empty(),
            Self::Call(call) => call.opens(),
            Self::Folded { .. } | Self::Undone { .. } => true,
            Self::Reply { .. } | Self::Note { .. } | Self::Gone => false,
        }
    }

    /// Whether it shows nothing.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Reply { text, .. } => text.trim().is_empty(),
            Self::Gone => true,
            _ => false,
        }
    }

    /// Estimated number of lines at a typical width.
    pub(super) fn weight(&self, is_open: bool) -> u32 {
        let lines = |bytes: usize| (bytes / 48 + 1) as u32;
        match self {
            Self::Prompt { text, .. } if is_long(text) && !is_open => 10,
            Self::Prompt { text, .. } => 1 + lines(text.len()),
            Self::Reply { text, .. } | Self::Note { text, .. } => lines(text.len()),
            Self::Thinking(thinking) if is_open => lines(thinking.text.len()),
            Self::Folded { text, .. } if is_open => 1 + lines(text.len()),
            Self::Call(call) if is_open => lines(call.bytes()),
            Self::Call(call) => 1 + lines(call.bytes()).min(3),
            Self::Thinking(_) | Self::Folded { .. } | Self::Undone { .. } => 1,
            Self::Gone => 0,
        }
    }
}

pub(super) fn is_long(prompt: &str) -> bool {
    prompt.len() > MAX_PROMPT_BYTES || prompt.lines().nth(MAX_PROMPT_LINES).is_some()
}
