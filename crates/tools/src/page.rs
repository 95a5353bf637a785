//! A page of numbered lines from text of any length, which arrives in pieces.

use std::borrow::Cow;
use std::fmt::Write;
use std::io::BufRead;

/// Maximum size of a page.
const MAX_PAGE_BYTES: usize = 50_000;

/// Longer lines are cut to this many bytes.
const MAX_LINE_BYTES: usize = 2000;

/// Collects the lines from `first` on.
#[derive(Debug)]
pub(crate) struct LinePage {
    first: u64,
    limit: u64,
    text: String,
    shown: u64,
    /// The page takes no more lines.
    is_full: bool,
    /// Number of complete lines read.
    lines: u64,
    /// The start of the current line, if it is on the page, and the line's length so far.
    line: Vec<u8>,
    length: u64,
    is_lossy: bool,
    has_returns: bool,
}

/// A finished page, and what is missing from it.
#[derive(Debug)]
pub(crate) struct FinishedPage {
    pub(crate) text: String,
    pub(crate) first: u64,
    pub(crate) shown: u64,
    /// Lines read. The total if the whole text was read.
    pub(crate) lines: u64,
    pub(crate) notes: Vec<&'static str>,
}

impl LinePage {
    /// Line numbers start at 1.
    pub(crate) fn new(first: u64, limit: u64) -> Self {
        Self {
            first: first.max(1),
            limit: limit.max(1),
            text: String::new(),
            shown: 0,
            is_full: false,
            lines: 0,
            line: Vec::new(),
            length: 0,
            is_lossy: false,
            has_returns: false,
        }
    }

    pub(crate) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let mut rest = bytes;
            // The standard library's fast search for a byte. It cannot fail on a slice.
            let length = rest.skip_until(b'\n').unwrap_or(bytes.len());
            let (piece, ended) = match &bytes[..length] {
                [piece @ .., b'\n'] => (piece, true),
                piece => (piece, false),
            };
            if !self.is_full && self.lines + 1 >= self.first {
                let room = MAX_LINE_BYTES.saturating_sub(self.line.len()) + 4;
                self.line.extend_from_slice(&piece[..piece.len().min(room)]);
                self.has_returns |= ended && piece.ends_with(b"\r");
            }
            self.length += piece.len() as u64;
            if ended {
                self.end_line();
            }
            bytes = &bytes[length..];
        }
    }

    fn end_line(&mut self) {
        self.lines += 1;
        let line = std::mem::take(&mut self.line);
        let length = std::mem::take(&mut self.length);
        if self.is_full || self.lines < self.first {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let mut shown = text.strip_suffix('\r').unwrap_or(&text);
        if self.lines == 1 {
            shown = shown.strip_prefix('\u{feff}').unwrap_or(shown);
        }
        let end = shown.floor_char_boundary(MAX_LINE_BYTES);
        let cut = if end < shown.len() {
            format!(
                "… [{} more bytes in this line]",
                length.saturating_sub(end as u64)
            )
        } else {
            String::new()
        };
        let shown = &shown[..end];
        if self.shown > 0 && self.text.len() + shown.len() + cut.len() + 8 > MAX_PAGE_BYTES {
            self.is_full = true;
            return;
        }
        // Ignores a character that was only broken by the cut.
        self.is_lossy |= matches!(text, Cow::Owned(_)) && shown.contains('\u{fffd}');
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{:>5}\t{shown}{cut}", self.lines);
        self.shown += 1;
        self.is_full = self.shown >= self.limit;
    }

    /// `is_end`: the whole text was read.
    pub(crate) fn finish(mut self, is_end: bool) -> FinishedPage {
        let is_unterminated = self.length > 0;
        let was_full = self.is_full;
        if is_unterminated && is_end {
            self.end_line();
        }
        let mut notes = Vec::new();
        if self.is_lossy {
            notes.push("bytes that are not UTF-8 are shown as \u{fffd}");
        }
        if self.has_returns {
            notes.push("lines end in CRLF");
        }
        if is_unterminated && is_end && !was_full && self.first <= self.lines {
            notes.push("no newline at the end");
        }
        FinishedPage {
            text: self.text,
            first: self.first,
            shown: self.shown,
            lines: self.lines,
            notes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &[u8], first: u64, limit: u64) -> FinishedPage {
        let mut whole = LinePage::new(first, limit);
        whole.push(text);
        let whole = whole.finish(true);
        let mut pieces = LinePage::new(first, limit);
        text.chunks(3).for_each(|piece| pieces.push(piece));
        let pieces = pieces.finish(true);
        assert_eq!(
            (&whole.text, whole.lines, &whole.notes),
            (&pieces.text, pieces.lines, &pieces.notes)
        );
        whole
    }

    #[test]
    fn a_page_has_the_requested_lines() {
        let check = |text: &str, first, limit, expect: &str, lines, notes: &[&str]| {
            let found = page(text.as_bytes(), first, limit);
            assert_eq!(found.text, expect, "{text:?}");
            assert_eq!(
                (found.lines, found.notes.as_slice()),
                (lines, notes),
                "{text:?}"
            );
        };
        let unterminated = ["no newline at the end"];
        check("a\nb\n", 1, 9, "    1\ta\n    2\tb\n", 2, &[]);
        check("a\nb", 1, 9, "    1\ta\n    2\tb\n", 2, &unterminated);
        check("a\nb", 1, 1, "    1\ta\n", 2, &[]);
        check("a\n\nb\n", 2, 9, "    2\t\n    3\tb\n", 3, &[]);
        check("a\nb\nc\n", 2, 1, "    2\tb\n", 3, &[]);
        check("a\n", 2, 1, "", 1, &[]);
        check(
            "\u{feff}a\r\nb\r\n",
            1,
            9,
            "    1\ta\n    2\tb\n",
            2,
            &["lines end in CRLF"],
        );
        check("", 1, 9, "", 0, &[]);
    }

    #[test]
    fn long_lines_and_long_pages_are_cut() {
        let found = page("\u{fc}".repeat(5000).as_bytes(), 1, 9);
        assert!(found.text.ends_with("… [8000 more bytes in this line]\n"));
        assert!(found.text.len() < 2100);
        let lines = format!("{}\n", "x".repeat(99)).repeat(5000);
        let found = page(lines.as_bytes(), 1, 9999);
        assert!(found.text.len() <= MAX_PAGE_BYTES && found.text.len() > MAX_PAGE_BYTES - 200);
        assert_eq!(found.lines, 5000);
        assert_eq!(found.text.lines().count() as u64, found.shown);
        let found = page(b"a\xff\n", 1, 9);
        assert_eq!(found.text, "    1\ta\u{fffd}\n");
        assert_eq!(found.notes.len(), 1);
        // A character split by the cut does not count as invalid UTF-8.
        let found = page(format!("a{}", "\u{fc}".repeat(5000)).as_bytes(), 1, 9);
        assert_eq!(found.notes, ["no newline at the end"]);
    }
}
