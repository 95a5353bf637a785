//! Output of commands: colours become styles, all other control sequences are removed.

use ratatui::style::Style;
use ratatui::text::Line;

use super::clean::{TextCleaner, TextSink, last_grapheme_len};
use super::sgr::SgrStyle;
use super::wrap::{spans, wrap_line};
use crate::theme::{ColourScheme, Theme};

/// Columns between tab stops, as in terminals.
const TAB_WIDTH: usize = 8;

/// The lines of some output, wrapped to a width.
pub(crate) fn output_lines(
    text: &str,
    width: u16,
    base: Style,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut sheet = OutputSink {
        width,
        base,
        scheme: theme.scheme,
        paint: SgrStyle::default(),
        runs: Vec::new(),
        lines: Vec::new(),
    };
    TextCleaner::default().write(text, &mut sheet);
    if !text.is_empty() && !text.ends_with('\n') {
        sheet.end_line();
    }
    sheet.lines
}

struct OutputSink {
    width: u16,
    base: Style,
    scheme: ColourScheme,
    paint: SgrStyle,
    /// The current line.
    runs: Vec<(SgrStyle, String)>,
    lines: Vec<Line<'static>>,
}

impl OutputSink {
    fn run(&mut self) -> &mut String {
        let is_new = self
            .runs
            .last()
            .is_none_or(|(paint, _)| *paint != self.paint);
        if is_new {
            self.runs.push((self.paint, String::new()));
        }
        &mut self.runs.last_mut().expect("runs is not empty").1
    }
}

impl TextSink for OutputSink {
    fn put(&mut self, character: char) {
        self.run().push(character);
    }

    fn put_all(&mut self, text: &str) {
        self.run().push_str(text);
    }

    fn end_line(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        let parts = runs
            .iter()
            .map(|(paint, text)| (text.as_str(), paint.style(self.base, self.scheme)));
        let line = Line::from(spans(parts, TAB_WIDTH));
        self.lines.extend(wrap_line(&line, self.width, ""));
    }

    fn erase_line(&mut self) {
        self.runs.clear();
    }

    fn erase_letter(&mut self) {
        while let Some((_, text)) = self.runs.last_mut() {
            if !text.is_empty() {
                return text.truncate(text.len() - last_grapheme_len(text));
            }
            self.runs.pop();
        }
    }

    fn style(&mut self, parameters: &str) {
        self.paint.apply(parameters);
    }
}
