//! Caches the code in a block that is laid out repeatedly while it grows, so that lines are not
//! coloured again.

use ratatui::text::Line;

use super::super::code::CodeLayout;
use crate::theme::Theme;

/// The code blocks inside one top-level block, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct CodeCache {
    codes: Vec<CachedCode>,
    next: usize,
}

#[derive(Debug, Clone)]
struct CachedCode {
    language: String,
    width: u16,
    /// Its whole lines.
    text: String,
    code: CodeLayout,
}

impl CodeCache {
    /// Starts a new layout of the block.
    pub(super) fn begin(&mut self) {
        self.next = 0;
    }

    /// Whether some code is plain only until its language is ready.
    pub(super) fn is_waiting(&self) -> bool {
        self.codes[..self.next]
            .iter()
            .any(|code| code.code.is_waiting())
    }

    /// The lines of the next code in the block.
    pub(super) fn code(
        &mut self,
        language: &str,
        text: &str,
        width: u16,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let (lines, unfinished) = text.split_at(whole);
        let is_known = self.codes.get(self.next).is_some_and(|known| {
            known.language == language && known.width == width && lines.starts_with(&known.text)
        });
        if !is_known {
            self.codes.truncate(self.next);
            self.codes.push(CachedCode {
                language: language.to_owned(),
                width,
                text: String::new(),
                code: CodeLayout::new(language, width),
            });
        }
        let known = &mut self.codes[self.next];
        self.next += 1;
        let new = &lines[known.text.len()..];
        known.code.push(new, theme);
        known.text.push_str(new);
        known.code.colour(&known.text, usize::MAX, theme);
        let mut layout = known.code.lines.clone();
        if !unfinished.is_empty() {
            layout.extend(known.code.unfinished(&known.text, unfinished, theme));
        }
        layout
    }
}
