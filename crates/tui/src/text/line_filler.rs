//! Fills lines with graphemes up to a width, and never beyond it. Entry type: [`LineFiller`].

use ratatui::buffer::CellWidth;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::wrap::graphemes;

/// Shown for a grapheme that is wider than the whole line.
const TOO_WIDE: &str = "·";

/// A grapheme with its width and style.
#[derive(Clone, Copy)]
pub(super) struct StyledGrapheme<'a> {
    pub(super) text: &'a str,
    pub(super) columns: usize,
    pub(super) style: Style,
}

impl StyledGrapheme<'_> {
    pub(super) fn is_space(&self) -> bool {
        self.text == " "
    }

    /// Scripts without spaces may be broken at any grapheme that is not closing punctuation.
    pub(super) fn is_breakable(&self) -> bool {
        self.columns == 2
    }

    pub(super) fn closes(&self) -> bool {
        matches!(
            self.text,
            "。" | "，"
                | "、"
                | "．"
                | "！"
                | "？"
                | "："
                | "；"
                | "）"
                | "」"
                | "』"
                | "】"
                | "》"
                | "〉"
        )
    }
}

pub(super) struct LineFiller {
    width: usize,
    style: Style,
    indent: String,
    indent_columns: usize,
    lines: Vec<Line<'static>>,
    spans: Vec<Span<'static>>,
    used: usize,
    /// The line has more than the indent.
    is_begun: bool,
}

impl LineFiller {
    pub(super) fn new(style: Style, width: u16, indent: &str) -> Self {
        let width = usize::from(width);
        let mut fitting_indent = String::new();
        let mut indent_columns = 0;
        for (grapheme, columns) in graphemes(indent) {
            if indent_columns + columns > width / 2 {
                break;
            }
            fitting_indent.push_str(grapheme);
            indent_columns += columns;
        }
        Self {
            width,
            style,
            indent: fitting_indent,
            indent_columns,
            lines: Vec::new(),
            spans: Vec::new(),
            used: 0,
            is_begun: false,
        }
    }

    pub(super) fn put_word(&mut self, space: &[StyledGrapheme<'_>], word: &[StyledGrapheme<'_>]) {
        let columns: usize = word.iter().map(|grapheme| grapheme.columns).sum();
        let begins_at = self.used + space.len();
        let fits_here = begins_at + columns <= self.width;
        let fits_a_line = self.indent_columns + columns <= self.width;
        if !fits_here && self.is_begun && (fits_a_line || begins_at >= self.width) {
            self.break_line();
        } else {
            for grapheme in space {
                self.put_wrapped(grapheme.text, grapheme.columns, grapheme.style);
            }
        }
        for grapheme in word {
            self.put_wrapped(grapheme.text, grapheme.columns, grapheme.style);
        }
    }

    pub(super) fn put_wrapped(&mut self, text: &str, columns: usize, style: Style) {
        if columns == 0 && text.is_empty() {
            return;
        }
        if columns > self.width.saturating_sub(self.indent_columns) {
            return self.put_too_wide(text, style);
        }
        if self.used + columns > self.width {
            self.break_line();
        }
        self.put(text, columns, style);
    }

    /// Splits a grapheme of several characters as far as needed.
    fn put_too_wide(&mut self, grapheme: &str, style: Style) {
        let room = self.width.saturating_sub(self.indent_columns);
        if room == 0 {
            return;
        }
        let mut part = String::new();
        for character in grapheme.chars() {
            let end = part.len();
            part.push(character);
            if usize::from(part.cell_width()) <= room {
                continue;
            }
            part.truncate(end);
            let alone = character.to_string();
            match usize::from(alone.cell_width()) {
                // A zero-width character that made the others wider.
                0 => {}
                columns if columns <= room => {
                    let part = std::mem::replace(&mut part, alone);
                    self.put_wrapped(&part, usize::from(part.cell_width()), style);
                }
                _ => self.put_wrapped(TOO_WIDE, 1, style),
            }
        }
        self.put_wrapped(&part, usize::from(part.cell_width()), style);
    }

    fn put(&mut self, text: &str, columns: usize, style: Style) {
        match self.spans.last_mut() {
            Some(last) if last.style == style => last.content.to_mut().push_str(text),
            _ => self.spans.push(Span::styled(text.to_owned(), style)),
        }
        self.used += columns;
        self.is_begun = true;
    }

    fn break_line(&mut self) {
        let spans = std::mem::take(&mut self.spans);
        self.lines.push(Line::from(spans).style(self.style));
        if !self.indent.is_empty() {
            self.spans.push(Span::raw(self.indent.clone()));
        }
        self.used = self.indent_columns;
        self.is_begun = false;
    }

    pub(super) fn finish(mut self) -> Vec<Line<'static>> {
        self.lines.push(Line::from(self.spans).style(self.style));
        self.lines
    }
}
