//! Stands in until the text module has these.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::Line;

use crate::text::{Markdown, wrap_plain};
use crate::theme::Theme;

pub(super) fn colours(_: &Theme) -> u64 {
    0
}

pub(super) fn wrap_prose(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    wrap_plain(text, width, style)
}

pub(super) fn code_lines(text: &str, _: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    wrap_plain(text.strip_suffix('\n').unwrap_or(text), width, theme.text)
}

pub(super) trait Ranges {
    fn line_count(&self, width: u16, theme: &Theme) -> usize;
    fn lines_range(&self, range: Range<usize>, width: u16, theme: &Theme) -> Vec<Line<'static>>;
}

impl Ranges for Markdown {
    fn line_count(&self, width: u16, theme: &Theme) -> usize {
        self.lines(width, theme).len()
    }

    fn lines_range(&self, range: Range<usize>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
        self.lines(width, theme)[range].to_vec()
    }
}
