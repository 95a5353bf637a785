//! Output of commands: colours become styles, all other control sequences are removed.

use ratatui::style::Style;
use ratatui::text::Line;

use super::clean::{Cleaner, Paper, last_letter};
use super::paint::Paint;
use super::wrap::{spans, wrap_line};
use crate::theme::{Look, Theme};

/// Columns between tab stops, as in terminals.
const TAB: usize = 8;

/// The lines of some output, wrapped to a width.
pub(crate) fn output_lines(
    text: &str,
    width: u16,
    base: Style,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let mut sheet = Sheet {
        width,
        base,
        look: theme.look,
        paint: Paint::default(),
        runs: Vec::new(),
        lines: Vec::new(),
    };
    Cleaner::default().write(text, &mut sheet);
    if !text.is_empty() && !text.ends_with('\n') {
        sheet.end_line();
    }
    sheet.lines
}

struct Sheet {
    width: u16,
    base: Style,
    look: Look,
    paint: Paint,
    /// The current line.
    runs: Vec<(Paint, String)>,
    lines: Vec<Line<'static>>,
}

impl Sheet {
    fn run(&mut self) -> &mut String {
        let is_new = self
            .runs
            .last()
            .is_none_or(|(paint, _)| *paint != self.paint);
        if is_new {
            self.runs.push((self.paint, String::new()));
        }
        &mut self
            .runs
            .last_mut()
            .expect("runs is not empty")
            .1
    }
}

impl Paper for Sheet {
    fn put(&mut self, letter: char) {
        self.run().push(letter);
    }

    fn put_all(&mut self, text: &str) {
        self.run().push_str(text);
    }

    fn end_line(&mut self) {
        let runs = std::mem::take(&mut self.runs);
        let parts = runs
            .iter()
            .map(|(paint, text)| (text.as_str(), paint.style(self.base, self.look)));
        let line = Line::from(spans(parts, TAB));
        self.lines.extend(wrap_line(&line, self.width, ""));
    }

    fn erase_line(&mut self) {
        self.runs.clear();
    }

    fn erase_letter(&mut self) {
        while let Some((_, text)) = self.runs.last_mut() {
            if !text.is_empty() {
                return text.truncate(text.len() - last_letter(text));
            }
            self.runs.pop();
        }
    }

    fn style(&mut self, parameters: &str) {
        self.paint.apply(parameters);
    }
}
