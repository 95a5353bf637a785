//! A unified diff in colours, with the changed words of a line emphasised.
//!
//! Every line keeps its sign, so that nothing is expressed by colour alone. Control characters are
//! made visible instead of dropped, so that a reviewer sees the whole change.

use std::ops::Range;

use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Span};

use super::reveal;
use super::word_diff::changed;
use super::wrap::{columns, spans, wrap_line};
use crate::theme::Theme;

/// Columns between tab stops after the sign.
const TAB_WIDTH: usize = 4;

/// The lines of a diff, wrapped to a width.
pub(crate) fn diff_lines(diff: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let cleaned = reveal(diff);
    let mut painter = DiffPainter {
        width,
        theme,
        lines: Vec::new(),
    };
    let mut left = HunkRemaining::default();
    let mut removed: Vec<&str> = Vec::new();
    let mut added: Vec<&str> = Vec::new();
    for line in cleaned.lines() {
        let kind = left.kind(line);
        match kind {
            DiffLineKind::Removed if added.is_empty() => removed.push(&line[1..]),
            DiffLineKind::Added => added.push(&line[1..]),
            _ => {
                painter.changes(&mut removed, &mut added);
                match kind {
                    DiffLineKind::Removed => removed.push(&line[1..]),
                    _ => painter.line(line, kind),
                }
            }
        }
    }
    painter.changes(&mut removed, &mut added);
    painter.lines
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DiffLineKind {
    Added,
    Removed,
    Same,
    /// The header of a hunk.
    Hunk,
    /// The name of a file, or any other line outside a hunk.
    About,
}

/// Remaining lines of the hunk. They distinguish a removed line `-- a` from the name of a file.
#[derive(Default)]
struct HunkRemaining {
    old: usize,
    new: usize,
    has_hunks: bool,
}

impl HunkRemaining {
    fn kind(&mut self, line: &str) -> DiffLineKind {
        if let Some((old, new)) = parse_hunk_header(line) {
            (self.old, self.new, self.has_hunks) = (old, new, true);
            return DiffLineKind::Hunk;
        }
        let is_in_hunk = self.old + self.new > 0;
        match line.as_bytes().first() {
            Some(b'+') if is_in_hunk => self.new = self.new.saturating_sub(1),
            Some(b'-') if is_in_hunk => self.old = self.old.saturating_sub(1),
            Some(b' ') | None if is_in_hunk => {
                self.old = self.old.saturating_sub(1);
                self.new = self.new.saturating_sub(1);
            }
            _ if line.starts_with("+++ ") || line.starts_with("--- ") => {
                return DiffLineKind::About;
            }
            // A diff without hunk headers.
            Some(b'+' | b'-' | b' ') if !self.has_hunks => {}
            _ => return DiffLineKind::About,
        }
        match line.as_bytes().first() {
            Some(b'+') => DiffLineKind::Added,
            Some(b'-') => DiffLineKind::Removed,
            _ => DiffLineKind::Same,
        }
    }
}

/// The number of old and new lines from a header such as `@@ -1,3 +1,4 @@`.
fn parse_hunk_header(line: &str) -> Option<(usize, usize)> {
    let mut ranges = line.strip_prefix("@@ -")?.split_whitespace();
    let count = |range: &str| match range.split_once(',') {
        Some((_, count)) => count.parse().ok(),
        None => Some(1),
    };
    let old = count(ranges.next()?)?;
    let new = count(ranges.next()?.strip_prefix('+')?)?;
    Some((old, new))
}

struct DiffPainter<'a> {
    width: u16,
    theme: &'a Theme,
    lines: Vec<Line<'static>>,
}

impl DiffPainter<'_> {
    fn line(&mut self, line: &str, kind: DiffLineKind) {
        let style = match kind {
            DiffLineKind::Hunk => self.theme.hunk.patch(self.theme.dim),
            DiffLineKind::About => self.theme.dim,
            _ => self.theme.text,
        };
        match kind {
            DiffLineKind::Same => self.content(" ", line.get(1..).unwrap_or(""), &[], style),
            _ => self.content("", line, &[], style),
        }
    }

    /// Draws removed lines and the added lines that replace them.
    fn changes(&mut self, removed: &mut Vec<&str>, added: &mut Vec<&str>) {
        let pairs: Vec<_> = if removed.len() == added.len() {
            removed
                .iter()
                .zip(added.iter())
                .map(|(old, new)| changed(old, new).unwrap_or_default())
                .collect()
        } else {
            Vec::new()
        };
        for (index, old) in removed.drain(..).enumerate() {
            let ranges = pairs.get(index).map_or(&[][..], |pair| &pair.0);
            self.content("-", old, ranges, self.theme.removed);
        }
        for (index, new) in added.drain(..).enumerate() {
            let ranges = pairs.get(index).map_or(&[][..], |pair| &pair.1);
            self.content("+", new, ranges, self.theme.added);
        }
    }

    fn content(&mut self, sign: &'static str, text: &str, ranges: &[Range<usize>], style: Style) {
        let stressed = style.add_modifier(Modifier::BOLD | Modifier::UNDERLINED);
        let mut parts: Vec<(&str, Style)> = Vec::new();
        let mut at = 0;
        for range in ranges {
            parts.push((&text[at..range.start], style));
            parts.push((&text[range.clone()], stressed));
            at = range.end;
        }
        parts.push((&text[at..], style));
        // The sign has its own column, on every line into which the text is wrapped.
        let room = match self.width {
            0 | 1 => self.width,
            width => width - u16::try_from(columns(sign)).unwrap_or(0),
        };
        let wrapped = wrap_line(&Line::from(spans(parts, TAB_WIDTH)), room, "");
        for (index, mut line) in wrapped.into_iter().enumerate() {
            if !sign.is_empty() && room < self.width {
                let sign = if index == 0 { sign } else { " " };
                line.spans.insert(0, Span::styled(sign, style));
            }
            self.lines.push(line);
        }
    }
}
