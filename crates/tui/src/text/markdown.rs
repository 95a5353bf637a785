//! A model's words, as they come, laid out as markdown.

use ratatui::text::Line;

use super::{clean, wrap_plain};
use crate::theme::Theme;

/// Text that grows. What is complete is laid out once for a width.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Markdown {
    source: String,
}

impl Markdown {
    pub(crate) fn new(source: &str) -> Self {
        let mut markdown = Self::default();
        markdown.push(source);
        markdown
    }

    pub(crate) fn push(&mut self, piece: &str) {
        self.source.push_str(piece);
    }

    /// As the model wrote it.
    pub(crate) fn source(&self) -> &str {
        &self.source
    }

    pub(crate) fn lines(&self, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        clean(&self.source)
            .lines()
            .flat_map(|line| wrap_plain(line, width, theme.text))
            .collect()
    }
}
