//! Wraps text into rows. Breaks between words where possible, and never inside a unit. Pure.

use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use super::embed::{Embed, Embeds, is_mark};

const TAB_WIDTH: usize = 4;

/// The part of a line that is one screen row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RowSpan {
    /// Index of the line.
    pub(super) line: usize,
    /// Character range within the line.
    pub(super) start: usize,
    pub(super) end: usize,
    /// Byte range within the line.
    bytes: (usize, usize),
}

/// A run of text within a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RowPiece {
    pub(crate) text: String,
    pub(crate) kind: RowPieceKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RowPieceKind {
    Text,
    /// A pasted block or an image.
    Unit,
}

/// A grapheme, or a unit.
struct TextCell<'a> {
    text: &'a str,
    /// Number of `char`s.
    letters: usize,
    kind: TextCellKind<'a>,
}

enum TextCellKind<'a> {
    Letter,
    Space,
    Tab,
    Unit(&'a Embed),
}

impl TextCell<'_> {
    fn width(&self, column: usize, most: usize) -> usize {
        match self.kind {
            TextCellKind::Tab => TAB_WIDTH - column % TAB_WIDTH,
            TextCellKind::Unit(unit) => unit.width().min(most),
            TextCellKind::Letter | TextCellKind::Space => self.text.width(),
        }
    }

    fn is_space(&self) -> bool {
        matches!(self.kind, TextCellKind::Space | TextCellKind::Tab)
    }
}

fn cells<'a>(text: &'a str, units: &'a Embeds) -> impl Iterator<Item = TextCell<'a>> {
    text.split_inclusive(is_mark).flat_map(move |part| {
        let mark = part.chars().next_back().filter(|letter| is_mark(*letter));
        let (words, mark) = part.split_at(part.len() - mark.map_or(0, char::len_utf8));
        let unit = mark.chars().next().map(|letter| TextCell {
            text: mark,
            letters: 1,
            kind: units
                .get(letter)
                .map_or(TextCellKind::Letter, TextCellKind::Unit),
        });
        let letters = words.graphemes(true).map(|text| TextCell {
            text,
            letters: text.chars().count(),
            kind: match text {
                "\t" => TextCellKind::Tab,
                " " => TextCellKind::Space,
                _ => TextCellKind::Letter,
            },
        });
        letters.chain(unit)
    })
}

/// The rows of one line. Spaces at the end of a row may extend beyond its width.
pub(super) fn wrap(line: usize, text: &str, units: &Embeds, width: usize) -> Vec<RowSpan> {
    let width = width.max(1);
    let span = |(start, end): ((usize, usize), (usize, usize))| RowSpan {
        line,
        start: start.1,
        end: end.1,
        bytes: (start.0, end.0),
    };
    // Fast path for short ASCII lines.
    if text.len() <= width && text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return vec![span(((0, 0), (text.len(), text.len())))];
    }
    let mut rows = Vec::new();
    // Positions are (byte, character).
    let mut start = (0, 0);
    let mut here = (0, 0);
    let mut column = 0;
    // The last position at which a row may end, and its column.
    let mut stop = ((0, 0), 0);
    for cell in cells(text, units) {
        let is_unit = matches!(cell.kind, TextCellKind::Unit(_));
        if is_unit {
            stop = (here, column);
        }
        let mut wide = cell.width(column, width);
        if cell.is_space() {
            wide = wide.min(width.saturating_sub(column));
        } else if column + wide > width && here != start {
            let (end, used) = if stop.0 > start { stop } else { (here, column) };
            rows.push((start, end));
            start = end;
            column -= used;
            // The part of a word after the break may still be too long.
            if column + wide > width && here != start {
                rows.push((start, here));
                (start, column) = (here, 0);
            }
        }
        column += wide;
        here = (here.0 + cell.text.len(), here.1 + cell.letters);
        if cell.is_space() || is_unit {
            stop = (here, column);
        }
    }
    rows.push((start, here));
    rows.into_iter().map(span).collect()
}

impl RowSpan {
    fn text<'a>(&self, line: &'a str) -> &'a str {
        line.get(self.bytes.0..self.bytes.1).unwrap_or_default()
    }

    /// The column of a character of the line.
    pub(super) fn column(&self, line: &str, units: &Embeds, letter: usize, width: usize) -> usize {
        let mut column = 0;
        let mut place = self.start;
        for cell in cells(self.text(line), units) {
            if place >= letter {
                break;
            }
            column += cell.width(column, width);
            place += cell.letters;
        }
        column.min(width)
    }

    /// The character at a column, or the last one before it.
    pub(super) fn letter(&self, line: &str, units: &Embeds, column: usize, width: usize) -> usize {
        let mut place = self.start;
        let mut at = 0;
        for cell in cells(self.text(line), units) {
            at += cell.width(at, width);
            // The end of a wrapped row is the beginning of the next.
            if at > column || place + cell.letters >= self.end && self.is_wrapped(line) {
                break;
            }
            place += cell.letters;
        }
        place
    }

    fn is_wrapped(&self, line: &str) -> bool {
        self.bytes.1 < line.len()
    }

    pub(super) fn pieces(&self, line: &str, units: &Embeds, width: usize) -> Vec<RowPiece> {
        let mut pieces = Vec::new();
        let mut words = String::new();
        let mut column = 0;
        for cell in cells(self.text(line), units) {
            let wide = cell.width(column, width);
            if column + wide > width && cell.is_space() {
                break;
            }
            column += wide;
            match cell.kind {
                TextCellKind::Letter | TextCellKind::Space => words.push_str(cell.text),
                TextCellKind::Tab => words.push_str(&" ".repeat(wide)),
                TextCellKind::Unit(unit) => {
                    if !words.is_empty() {
                        pieces.push(RowPiece {
                            text: std::mem::take(&mut words),
                            kind: RowPieceKind::Text,
                        });
                    }
                    pieces.push(RowPiece {
                        text: fitted(unit.label(), wide),
                        kind: RowPieceKind::Unit,
                    });
                }
            }
        }
        if !words.is_empty() {
            pieces.push(RowPiece {
                text: words,
                kind: RowPieceKind::Text,
            });
        }
        pieces
    }
}

fn fitted(label: String, width: usize) -> String {
    if label.width() <= width {
        return label;
    }
    let mut fitted = String::new();
    for letter in label.graphemes(true) {
        if fitted.width() + letter.width() >= width {
            break;
        }
        fitted.push_str(letter);
    }
    fitted.push('…');
    fitted
}

/// Number of `char`s of the grapheme that ends at a position in a line.
pub(super) fn chars_before(text: &str, units: &Embeds, place: usize) -> usize {
    let mut at = 0;
    for cell in cells(text, units) {
        if at + cell.letters >= place {
            return place - at;
        }
        at += cell.letters;
    }
    0
}

/// Number of `char`s of the grapheme that begins at a position in a line.
pub(super) fn chars_after(text: &str, units: &Embeds, place: usize) -> usize {
    let mut at = 0;
    for cell in cells(text, units) {
        at += cell.letters;
        if at > place {
            return at - place;
        }
    }
    0
}
