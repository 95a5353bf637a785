//! One thing that happened, as text that is kept once. Knows nothing of how it looks.

use jiff::Timestamp;

use super::call::Call;

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A person's words.
    Prompt {
        text: String,
        images: usize,
    },
    /// The model's words, as markdown.
    Words {
        text: String,
        is_whole: bool,
    },
    Thinking(Thinking),
    Call(Box<Call>),
    /// Words of the harness or of the UI.
    Note {
        text: String,
        tone: Tone,
    },
    /// One line that opens.
    Folded {
        title: String,
        text: String,
    },
    /// Turns that no longer count: what came before this entry and is hidden by it.
    Undone {
        title: String,
        left: Vec<String>,
    },
    /// What was here is void. Its place stays, so that all others keep theirs.
    Gone,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Thinking {
    pub(crate) text: String,
    /// When its first piece came; unknown of what was read from the store.
    pub(crate) begun: Option<Timestamp>,
    /// How long it took, in milliseconds, once it is over.
    pub(crate) millis: Option<u64>,
    pub(crate) is_over: bool,
}

/// How a note is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Warning,
    Error,
}

/// A longer prompt is shown in part.
pub(super) const LONGEST_PROMPT: usize = 12;
/// In bytes: one line may be long too.
const LARGEST_PROMPT: usize = 4096;

impl Entry {
    pub(super) fn note(text: impl Into<String>, tone: Tone) -> Self {
        Self::Note {
            text: text.into(),
            tone,
        }
    }

    /// There is more to it than is shown.
    pub(super) fn opens(&self) -> bool {
        match self {
            Self::Prompt { text, .. } => is_long(text),
            Self::Thinking(thinking) => !thinking.text.is_empty(),
            Self::Call(call) => call.opens(),
            Self::Folded { .. } | Self::Undone { .. } => true,
            Self::Words { .. } | Self::Note { .. } | Self::Gone => false,
        }
    }

    /// There is nothing to see.
    pub(super) fn is_blank(&self) -> bool {
        match self {
            Self::Words { text, .. } => text.trim().is_empty(),
            Self::Gone => true,
            _ => false,
        }
    }

    /// Lines that it takes, about, at a usual width.
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
