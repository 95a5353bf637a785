//! What happened, as a page to look at: a fold over events, and the part of it in view.
//!
//! Only what is in view is ever laid out, so that the length of a session costs nothing: the view
//! hangs on an entry and a line in it, not on a count of all lines.

mod entry;
mod fold;
mod layout;
mod view;

use protocol::Event;
use ratatui::text::Line;

pub(crate) use self::entry::{Call, CallState, Entry, Tone};
use crate::theme::Theme;

/// All entries, and which of them are looked at.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    entries: Vec<Entry>,
    view: view::View,
    /// The lines in view, made by [`Transcript::arrange`].
    visible: Vec<Line<'static>>,
}

impl Transcript {
    /// Begins anew, with what happened so far.
    pub(crate) fn open(history: &[Event]) -> Self {
        let mut transcript = Self::default();
        for event in history {
            transcript.apply(event);
        }
        transcript
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        fold::apply(&mut self.entries, event);
    }

    /// Adds a line of the UI's own.
    pub(crate) fn note(&mut self, text: impl Into<String>, tone: Tone) {
        self.entries.push(Entry::Note {
            text: text.into(),
            tone,
        });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Lays out what is in view. Called before every drawing.
    pub(crate) fn arrange(&mut self, width: u16, height: u16, theme: &Theme) {
        self.visible = layout::visible(&self.entries, &mut self.view, width, height, theme);
    }

    pub(crate) fn visible(&self) -> &[Line<'static>] {
        &self.visible
    }

    /// Down by so many lines, or up.
    pub(crate) fn scroll(&mut self, lines: i32) {
        self.view.wanted += lines;
    }

    /// The last words of the model, as it wrote them.
    pub(crate) fn last_reply(&self) -> Option<&str> {
        self.entries.iter().rev().find_map(|entry| match entry {
            Entry::Words { markdown } => Some(markdown.source()),
            _ => None,
        })
    }
}
