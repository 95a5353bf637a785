//! An entry of the transcript as text. Independent of its layout.

use jiff::Timestamp;

use super::call::Call;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A message of the user.
    Prompt {
        text: String,
        images: usize,
    },
    /// A reply of the model, as markdown.
    Words {
        text: String,
        is_whole: bool,
    },
    Thinking(Thinking),
    Call(Box<Call>),
    /// A note of the agent or of the UI.
    Note {
        text: String,
        tone: Tone,
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
pub(crate) struct Thinking {
    pub(crate) text: String,
    /// Time of the first piece; unknown if read from the store.
    pub(crate) begun: Option<Timestamp>,
    /// Duration in milliseconds, once it has ended.
    pub(crate) millis: Option<u64>,
    pub(crate) is_over: bool,
}

/// The kind of a note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Error,
}

/// A prompt with more lines is shown in part.
pub(super) const LONGEST_PROMPT: usize = 12;
/// A prompt with more bytes is shown in part too: it may be one long line.
const LARGEST_PROMPT: usize = 4096;

impl Entry {
    pub(super) fn note(text: impl Into<String>, tone: Tone) -> Self {
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
            Self::Words { .. } | Self::Note { .. } | Self::Gone => false,
        }
    }

    /// Whether it shows nothing.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Words { text, .. } => text.trim().is_empty(),
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
            Self::Words { text, .. } | Self::Note { text, .. } => lines(text.len()),
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
    prompt.len() > LARGEST_PROMPT || prompt.lines().nth(LONGEST_PROMPT).is_some()
}
