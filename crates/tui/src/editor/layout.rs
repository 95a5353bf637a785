//! Wraps text into rows. Breaks between words where possible, and never inside an embed. Pure.
//!
//! Entry type: [`TextLayout`].

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::embed::{Embed, Embeds, is_embed_char};
use crate::text::{columns, fit};

const TAB_WIDTH: usize = 4;

/// The rows of a text at a width.
pub(super) struct TextLayout<'a> {
    embeds: &'a Embeds,
    width: usize,
    rows: Vec<Row<'a>>,
}

/// The part of a line that is one screen row. Spaces at its end may extend beyond the width.
struct Row<'a> {
    /// Index of the line.
    line: usize,
    /// Index of its first character in the line.
    start: usize,
    text: &'a str,
    /// The line continues on the next row.
    is_wrapped: bool,
}

/// A run of text within a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPiece {
    pub(crate) text: String,
    /// The label of a pasted block or an image.
    pub(crate) is_embed: bool,
}

/// The graphemes of a text. The character of an embed is always a grapheme of its own.
pub(super) fn graphemes(text: &str) -> impl DoubleEndedIterator<Item = &str> {
    text.split_inclusive(is_embed_char).flat_map(|part| {
        let (plain, embed) = part.split_at(part.find(is_embed_char).unwrap_or(part.len()));
        plain
            .graphemes(true)
            .chain((!embed.is_empty()).then_some(embed))
    })
}

fn is_space(grapheme: &str) -> bool {
    matches!(grapheme, " " | "\t")
}

impl<'a> TextLayout<'a> {
    pub(super) fn new(lines: &'a [String], embeds: &'a Embeds, width: usize) -> Self {
        let mut layout = Self {
            embeds,
            width: width.max(1),
            rows: Vec::new(),
        };
        for (index, line) in lines.iter().enumerate() {
            layout.wrap(index, line);
        }
        layout
    }

    /// Number of rows.
    pub(super) fn height(&self) -> usize {
        self.rows.len()
    }

    fn wrap(&mut self, line: usize, text: &'a str) {
        let mut from = 0;
        let mut start = 0;
        for end in self.row_ends(text) {
            let row = Row {
                line,
                start,
                text: &text[from..end],
                is_wrapped: end < text.len(),
            };
            (from, start) = (end, start + row.text.chars().count());
            self.rows.push(row);
        }
    }

    /// Offsets of the ends of all rows of a line.
    fn row_ends(&self, text: &str) -> Vec<usize> {
        // Fast path for short ASCII lines.
        if text.len() <= self.width && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
            return vec![text.len()];
        }
        let mut ends = Vec::new();
        let (mut start, mut offset, mut column) = (0, 0, 0);
        // The last offset at which the row may end, and its column.
        let mut stop = (0, 0);
        for grapheme in graphemes(text) {
            let is_embed = self.embed(grapheme).is_some();
            let mut width = self.grapheme_width(grapheme, column);
            if is_embed {
                stop = (offset, column);
            }
            if is_space(grapheme) {
                width = width.min(self.width.saturating_sub(column));
            } else if column + width > self.width && offset > start {
                let (end, used) = if stop.0 > start {
                    stop
                } else {
                    (offset, column)
                };
                ends.push(end);
                start = end;
                column -= used;
                // The part of a word after the break may still be too long.
                if column + width > self.width && offset > start {
                    ends.push(offset);
                    (start, column) = (offset, 0);
                }
            }
            column += width;
            offset += grapheme.len();
            if is_embed || is_space(grapheme) {
                stop = (offset, column);
            }
        }
        ends.push(offset);
        ends
    }

    fn embed(&self, grapheme: &str) -> Option<&Embed> {
        self.embeds.get(grapheme.chars().next()?)
    }

    fn grapheme_width(&self, grapheme: &str, column: usize) -> usize {
        match self.embed(grapheme) {
            Some(embed) => columns(&embed.label()).min(self.width),
            None if grapheme == "\t" => TAB_WIDTH - column % TAB_WIDTH,
            None => grapheme.width(),
        }
    }

    /// Row and column of a character, given as line and index in the line.
    pub(super) fn position_of(&self, character: (usize, usize)) -> (usize, usize) {
        let is_before = |row: &Row<'_>| (row.line, row.start) <= character;
        let index = self.rows.partition_point(is_before).saturating_sub(1);
        let Some(row) = self.rows.get(index) else {
            return (0, 0);
        };
        let (mut at, mut column) = (row.start, 0);
        for grapheme in graphemes(row.text) {
            if at >= character.1 {
                break;
            }
            at += grapheme.chars().count();
            column += self.grapheme_width(grapheme, column);
        }
        (index, column.min(self.width))
    }

    /// The character at a column of a row, or the last one before it, as line and index in the
    /// line.
    pub(super) fn character_at(&self, row: usize, column: usize) -> Option<(usize, usize)> {
        let row = self.rows.get(row)?;
        let mut graphemes = graphemes(row.text);
        if row.is_wrapped {
            // The end of a wrapped row is the beginning of the next.
            graphemes.next_back();
        }
        let (mut at, mut used) = (row.start, 0);
        for grapheme in graphemes {
            used += self.grapheme_width(grapheme, used);
            if used > column {
                break;
            }
            at += grapheme.chars().count();
        }
        Some((row.line, at))
    }

    /// A row as it is drawn.
    pub(super) fn pieces(&self, row: usize) -> Vec<RowPiece> {
        let mut pieces: Vec<RowPiece> = Vec::new();
        let mut column = 0;
        for grapheme in graphemes(self.rows.get(row).map_or("", |row| row.text)) {
            let width = self.grapheme_width(grapheme, column);
            if column + width > self.width && is_space(grapheme) {
                break;
            }
            column += width;
            let embed = self.embed(grapheme);
            let is_embed = embed.is_some();
            let text = match embed {
                Some(embed) => Cow::Owned(fit(&embed.label(), width)),
                None if grapheme == "\t" => Cow::Owned(" ".repeat(width)),
                None => Cow::Borrowed(grapheme),
            };
            match pieces.last_mut() {
                Some(last) if !is_embed && !last.is_embed => last.text.push_str(&text),
                _ => pieces.push(RowPiece {
                    text: text.into_owned(),
                    is_embed,
                }),
            }
        }
        pieces
    }
}
