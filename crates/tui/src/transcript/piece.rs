//! Splits long texts into pieces. Looks only at the text around a boundary and never builds a list
//! of all lines.

use std::ops::Range;

/// Approximate size of a piece in bytes.
const PIECE_BYTES: usize = 8 * 1024;

/// Number of pieces of a text.
pub(super) fn piece_count(text: &str) -> usize {
    text.len().div_ceil(PIECE_BYTES).max(1)
}

/// The byte range of a piece: whole lines, unless they are too long.
pub(super) fn piece(text: &str, piece: usize) -> Range<usize> {
    piece_start(text, piece)..piece_start(text, piece + 1)
}

/// The piece that contains a byte.
pub(super) fn piece_at(text: &str, offset: usize) -> usize {
    let guess = offset / PIECE_BYTES;
    // A piece begins at or after its nominal start.
    if piece_start(text, guess) > offset {
        guess.saturating_sub(1)
    } else {
        guess
    }
}

/// The start of a piece, found from the text around it. Never before the start of an earlier piece.
fn piece_start(text: &str, piece: usize) -> usize {
    let nominal = piece.saturating_mul(PIECE_BYTES);
    if nominal == 0 || nominal >= text.len() {
        return nominal.min(text.len());
    }
    let bytes = text.as_bytes();
    let end = (nominal - 1 + PIECE_BYTES).min(bytes.len());
    let window = &bytes[nominal - 1..end];
    match window.iter().position(|byte| *byte == b'\n') {
        Some(found) => nominal + found,
        None if end == bytes.len() => end,
        None => text.floor_char_boundary(nominal),
    }
}

/// The first lines of a text, up to a maximum size.
pub(super) fn first_lines(text: &str, lines: usize) -> &str {
    let most = text.floor_char_boundary(lines * 240);
    let start = &text[..most];
    let mut ends = start.match_indices('\n').map(|(end, _)| end);
    match ends.nth(lines.saturating_sub(1)) {
        Some(end) => &start[..end],
        None => start,
    }
}

/// The last lines of a text, up to a maximum size.
pub(super) fn last_lines(text: &str, lines: usize) -> &str {
    let text = text.trim_end_matches(['\n', '\r']);
    let most = text.ceil_char_boundary(text.len().saturating_sub(lines * 1024));
    let end = &text[most..];
    let mut starts = end.rmatch_indices('\n').map(|(start, _)| start + 1);
    match starts.nth(lines.saturating_sub(1)) {
        Some(start) => &end[start..],
        None => end,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_text() {
        let line = "é".repeat(33) + "\n";
        for text in [
            String::new(),
            "a\nb".to_owned(),
            line.repeat(1000),
            "é".repeat(30_000),
            format!("{}\n{}", "x".repeat(20_000), line.repeat(300)),
            format!("{}{}", line.repeat(300), "x".repeat(20_000)),
        ] {
            let all: Vec<Range<usize>> = (0..piece_count(&text))
                .map(|number| piece(&text, number))
                .collect();
            let whole: String = all.iter().map(|range| &text[range.clone()]).collect();
            assert_eq!(whole, text);
            for (number, range) in all.iter().enumerate() {
                assert!(range.len() <= 2 * PIECE_BYTES);
                if !range.is_empty() {
                    assert_eq!(piece_at(&text, range.start), number);
                }
            }
        }
    }

    #[test]
    fn pieces_end_at_line_ends() {
        let text = "some line of words\n".repeat(5000);
        for number in 0..piece_count(&text) {
            assert!(text[piece(&text, number)].ends_with('\n'), "{number}");
        }
    }

    #[test]
    fn first_and_last_lines() {
        for (text, first, last) in [
            ("", "", ""),
            ("a", "a", "a"),
            ("a\nb\nc", "a\nb", "b\nc"),
            ("a\nb\nc\n\n", "a\nb", "b\nc"),
            ("a\nb", "a\nb", "a\nb"),
        ] {
            assert_eq!(first_lines(text, 2), first);
            assert_eq!(last_lines(text, 2), last);
        }
    }
}
