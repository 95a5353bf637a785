//! Removes control sequences from text, and characters that would hide words from a reader.
//!
//! The result has only text, line ends and tabs. Of a line that was overwritten (`\r`, backspace),
//! the final content is kept. Entry points: [`clean`] for a whole text, [`TextCleaner`] for text in
//! pieces, [`reveal`] where nothing may be left out.

use std::borrow::Cow;

use unicode_segmentation::UnicodeSegmentation;

use super::char_filter::{self, CharFilter};
use super::escape::{EscapeScanner, ScannedChar};

/// Reduces a text to printable characters, line ends and tabs.
pub fn clean(text: &str) -> Cow<'_, str> {
    if text
        .bytes()
        .all(|byte| is_plain(byte) || matches!(byte, b'\n' | b'\t'))
    {
        return Cow::Borrowed(text);
    }
    if TextCleaner::default().leaves_unchanged(text) {
        return Cow::Borrowed(text);
    }
    let mut cleaned = String::with_capacity(text.len());
    TextCleaner::default().write(text, &mut cleaned);
    Cow::Owned(cleaned)
}

/// As safe as [`clean`], for text that is reviewed, such as files: a visible symbol stands for each
/// removed character.
pub(crate) fn reveal(text: &str) -> Cow<'_, str> {
    if text
        .bytes()
        .all(|byte| is_plain(byte) || matches!(byte, b'\n' | b'\t'))
    {
        return Cow::Borrowed(text);
    }
    let mut revealed = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\r' if characters.peek() == Some(&'\n') => {}
            '\n' | '\t' => revealed.push(character),
            '\0'..='\u{1f}' => revealed.extend(char::from_u32(0x2400 + u32::from(character))),
            '\u{7f}' => revealed.push('\u{2421}'),
            character if character.is_control() || char_filter::is_invisible(character) => {
                revealed.push(char::REPLACEMENT_CHARACTER);
            }
            character => revealed.push(character),
        }
    }
    // Removes stray joiners and excess combining marks.
    match clean(&revealed) {
        Cow::Borrowed(_) => Cow::Owned(revealed),
        Cow::Owned(cleaned) => Cow::Owned(cleaned),
    }
}

/// Receives clean text.
pub(super) trait TextSink {
    fn put(&mut self, character: char);
    fn put_all(&mut self, text: &str);
    fn end_line(&mut self);
    /// Removes the current line.
    fn erase_line(&mut self);
    /// Removes the last grapheme of the current line, if it has one.
    fn erase_letter(&mut self);
    /// Sets the style of the following text by SGR parameters.
    fn style(&mut self, _parameters: &str) {}
}

/// Cleans a text that arrives in pieces. The result does not depend on where it was cut.
#[derive(Debug, Clone, Default)]
pub(super) struct TextCleaner {
    scanner: EscapeScanner,
    sieve: CharFilter,
    /// After `\r`: the next character overwrites the line.
    has_returned: bool,
    /// Number of graphemes that the next character overwrites.
    steps_back: usize,
}

impl TextCleaner {
    pub(super) fn write(&mut self, text: &str, paper: &mut impl TextSink) {
        let mut rest = text;
        while let Some(character) = rest.chars().next() {
            if self.scanner.is_in_text() {
                let end = rest.bytes().take_while(|byte| is_plain(*byte)).count();
                let (plain, after) = rest.split_at(end);
                if let Some(last) = plain.chars().last() {
                    self.apply_overwrite(paper);
                    self.sieve.note_plain(last);
                    paper.put_all(plain);
                    rest = after;
                    continue;
                }
            }
            rest = &rest[character.len_utf8()..];
            match self.scanner.take(character) {
                ScannedChar::Nothing => {}
                ScannedChar::Style => {
                    // A combining mark cannot have another style than its base character.
                    self.sieve.begin();
                    paper.style(self.scanner.parameters());
                }
                ScannedChar::Letter(character) => self.character(character, paper),
            }
        }
    }

    /// Processes a piece without writing it. Returns whether cleaning leaves it unchanged.
    pub(super) fn leaves_unchanged(&mut self, text: &str) -> bool {
        let mut comparison = CleanComparison {
            rest: text,
            is_same: true,
        };
        self.write(text, &mut comparison);
        comparison.is_same && comparison.rest.is_empty()
    }

    fn character(&mut self, character: char, paper: &mut impl TextSink) {
        match character {
            '\n' => {
                self.sieve.begin();
                (self.has_returned, self.steps_back) = (false, 0);
                paper.end_line();
            }
            '\r' => {
                self.sieve.begin();
                self.has_returned = true;
            }
            '\u{8}' => {
                self.sieve.begin();
                self.steps_back += 1;
            }
            '\t' => {
                self.sieve.begin();
                self.apply_overwrite(paper);
                paper.put('\t');
            }
            character => {
                let mut sieve = std::mem::take(&mut self.sieve);
                sieve.take(character, &mut |kept| {
                    self.apply_overwrite(paper);
                    paper.put(kept);
                });
                self.sieve = sieve;
            }
        }
    }

    fn apply_overwrite(&mut self, paper: &mut impl TextSink) {
        let steps = std::mem::take(&mut self.steps_back);
        if std::mem::take(&mut self.has_returned) {
            paper.erase_line();
        } else {
            (0..steps).for_each(|_| paper.erase_letter());
        }
    }
}

/// Length of the last grapheme of a text in bytes.
pub(super) fn last_grapheme_len(text: &str) -> usize {
    text.graphemes(true).next_back().map_or(0, str::len)
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~')
}

impl TextSink for String {
    fn put(&mut self, character: char) {
        self.push(character);
    }

    fn put_all(&mut self, text: &str) {
        self.push_str(text);
    }

    fn end_line(&mut self) {
        self.push('\n');
    }

    fn erase_line(&mut self) {
        self.truncate(self.rfind('\n').map_or(0, |end| end + 1));
    }

    fn erase_letter(&mut self) {
        if !self.ends_with('\n') {
            self.truncate(self.len() - last_grapheme_len(self));
        }
    }
}

/// Detects whether cleaning changes the text, without storing the result.
struct CleanComparison<'a> {
    rest: &'a str,
    is_same: bool,
}

impl TextSink for CleanComparison<'_> {
    fn put(&mut self, character: char) {
        match self.rest.strip_prefix(character) {
            Some(rest) => self.rest = rest,
            None => self.is_same = false,
        }
    }

    fn put_all(&mut self, text: &str) {
        match self.rest.strip_prefix(text) {
            Some(rest) => self.rest = rest,
            None => self.is_same = false,
        }
    }

    fn end_line(&mut self) {
        self.put('\n');
    }

    fn erase_line(&mut self) {
        self.is_same = false;
    }

    fn erase_letter(&mut self) {
        self.is_same = false;
    }
}
