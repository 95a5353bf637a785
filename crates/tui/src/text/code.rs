//! Source code with syntax colours; plain until they are available.
//!
//! Entry points: [`code_lines`] for a whole text, [`CodeLayout`] for code that grows or is shown in part.

use std::ops::Range;

use ratatui::style::Style;
use ratatui::text::Line;

use super::coloured_code::CodeKey;
use super::highlighter::Highlighter;
use super::palette::CodeTokenKind;
use super::reveal;
use super::wrap::{spans, wrap_line};
use crate::theme::{ColourScheme, Theme};

/// Columns between tab stops.
const TAB_WIDTH: usize = 4;
/// Lines after this one stay plain.
const MAX_COLOURED_LINES: usize = 2_000;
/// More lines than this are coloured on the background thread: one line takes a tenth of a
/// millisecond.
const MAX_FOREGROUND_LINES: usize = 12;

/// The lines of a file, wrapped to a width. `language` is a name or a path.
pub(crate) fn code_lines(
    text: &str,
    language: &str,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let text = reveal(text);
    if text.lines().nth(MAX_COLOURED_LINES).is_some() {
        return text
            .lines()
            .flat_map(|line| wrapped(&[(line, theme.text)], width))
            .collect();
    }
    let mut code = CodeLayout::new(language, width);
    code.push(&text, theme);
    code.colour(&text, usize::MAX, theme);
    code.lines
}

fn wrapped(parts: &[(&str, Style)], width: u16) -> Vec<Line<'static>> {
    wrap_line(
        &Line::from(spans(parts.iter().copied(), TAB_WIDTH)),
        width,
        "",
    )
}

/// Code laid out for a width. Lines are laid out plain when they are pushed, and coloured when they
/// are shown: colours never change the number of lines.
#[derive(Debug, Clone)]
pub(super) struct CodeLayout {
    language: String,
    width: u16,
    pub(super) lines: Vec<Line<'static>>,
    colouring: ColouringState,
    /// The pending request to the background thread: its key, and the length of the text.
    requested: Option<(CodeKey, usize)>,
}

#[derive(Debug, Clone)]
enum ColouringState {
    /// Not shown yet, or its language was not ready in this generation.
    Waiting { since: Option<u64> },
    /// Everything before these positions is coloured.
    Going {
        highlighter: Box<Highlighter>,
        source: usize,
        line: usize,
        count: usize,
    },
    /// It stays plain.
    Done,
}

impl CodeLayout {
    pub(super) fn new(language: &str, width: u16) -> Self {
        Self {
            language: language.to_owned(),
            width,
            lines: Vec::new(),
            colouring: ColouringState::Waiting { since: None },
            requested: None,
        }
    }

    /// Adds whole lines, plain.
    pub(super) fn push(&mut self, lines: &str, theme: &Theme) {
        for line in lines.lines() {
            self.lines
                .extend(wrapped(&[(line, theme.text)], self.width));
        }
    }

    /// Colours the part of `text` that reaches into the first `end` lines of the layout. `text` is
    /// everything that was pushed.
    pub(super) fn colour(&mut self, text: &str, end: usize, theme: &Theme) {
        self.begin(text, theme);
        if self.exceeds_foreground_limit(text, end) {
            self.colour_in_background(text, theme);
            if self.requested.is_some() {
                return;
            }
        }
        let ColouringState::Going {
            highlighter,
            source,
            line,
            count,
        } = &mut self.colouring
        else {
            return;
        };
        let end = end.min(self.lines.len());
        let rest = &text[*source..];
        for coloured in rest.split_inclusive('\n') {
            if *line >= end || *count >= MAX_COLOURED_LINES {
                return;
            }
            let content = coloured.strip_suffix('\n').unwrap_or(coloured);
            let layout = parts(highlighter, content, self.width, theme);
            let range: Range<usize> = *line..(*line + layout.len()).min(self.lines.len());
            *line += layout.len();
            *source += coloured.len();
            *count += 1;
            self.lines.splice(range, layout);
        }
    }

    /// Whether there is too much to colour before the next frame.
    fn exceeds_foreground_limit(&self, text: &str, end: usize) -> bool {
        let ColouringState::Going { source, line, .. } = &self.colouring else {
            return false;
        };
        // Every line of the text takes at least one line of the layout.
        let lines = end.min(self.lines.len()).saturating_sub(*line);
        lines > MAX_FOREGROUND_LINES && text[*source..].lines().nth(MAX_FOREGROUND_LINES).is_some()
    }

    /// Applies the result of the background thread, or requests it.
    fn colour_in_background(&mut self, text: &str, theme: &Theme) {
        let Some(colours) = theme.colours else {
            return;
        };
        let (key, length) = *self.requested.get_or_insert_with(|| {
            let end = text
                .split_inclusive('\n')
                .take(MAX_COLOURED_LINES)
                .map(str::len)
                .sum();
            (CodeKey::new(&self.language, &text[..end]), end)
        });
        let Some(painted) = colours.painted(key, &self.language, &text[..length]) else {
            return;
        };
        self.requested = None;
        let mut line = 0;
        let mut count = 0;
        for content in text[..length].lines() {
            let parts = painted.parts(count, content);
            let layout = wrapped(&with_styles(parts, theme), self.width);
            let range = line..(line + layout.len()).min(self.lines.len());
            line += layout.len();
            count += 1;
            self.lines.splice(range, layout);
        }
        self.colouring = ColouringState::Going {
            highlighter: Box::new(painted.end()),
            source: length,
            line,
            count,
        };
    }

    /// Lays out the line that is still being written. The result is not stored.
    pub(super) fn unfinished(
        &mut self,
        text: &str,
        line: &str,
        theme: &Theme,
    ) -> Vec<Line<'static>> {
        self.colour(text, usize::MAX, theme);
        match &self.colouring {
            ColouringState::Going {
                highlighter,
                source,
                count,
                ..
            } if *source == text.len() && *count < MAX_COLOURED_LINES => {
                parts(&mut highlighter.clone(), line, self.width, theme)
            }
            _ => wrapped(&[(line, theme.text)], self.width),
        }
    }

    /// Whether it is plain only until colours are available.
    pub(super) fn is_waiting(&self) -> bool {
        self.requested.is_some()
            || matches!(self.colouring, ColouringState::Waiting { since: Some(_) })
    }

    /// Starts colouring if the language may have become ready.
    fn begin(&mut self, text: &str, theme: &Theme) {
        let ColouringState::Waiting { since } = self.colouring else {
            return;
        };
        let Some(colours) = theme
            .colours
            .filter(|_| theme.scheme != ColourScheme::Plain)
        else {
            return;
        };
        let generation = colours.generation();
        if since == Some(generation) {
            return;
        }
        self.colouring = match colours.highlighter(&self.language, text) {
            (Some(highlighter), _) => ColouringState::Going {
                highlighter: Box::new(highlighter),
                source: 0,
                line: 0,
                count: 0,
            },
            (None, true) => ColouringState::Waiting {
                since: Some(generation),
            },
            (None, false) => ColouringState::Done,
        };
    }
}

fn parts(
    highlighter: &mut Highlighter,
    line: &str,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    wrapped(&with_styles(highlighter.line(line), theme), width)
}

fn with_styles<'a>(parts: Vec<(&'a str, CodeTokenKind)>, theme: &Theme) -> Vec<(&'a str, Style)> {
    parts
        .into_iter()
        .map(|(text, part)| (text, part.style(theme)))
        .collect()
}
