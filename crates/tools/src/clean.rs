//! Converts a command's output to text for a model: without colours, cursor movements and control
//! characters other than newline and tab. Of a progress bar only its last state remains.

/// Longer lines are passed on in parts. A carriage return then clears only the last part.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// A longer sequence is treated as ended, so that it cannot hide the text after it.
const MAX_SEQUENCE_CHARS: usize = 4096;

/// Merges both streams of a command, in order of arrival.
#[derive(Debug, Default)]
pub(crate) struct OutputCleaner {
    output: StreamCleaner,
    errors: StreamCleaner,
    line: LineBuffer,
}

impl OutputCleaner {
    /// The closure receives text that is final.
    pub(crate) fn push(&mut self, bytes: &[u8], is_error: bool, mut put: impl FnMut(&str)) {
        let line = &mut self.line;
        let decoder = if is_error {
            &mut self.errors
        } else {
            &mut self.output
        };
        decoder.push(bytes, &mut |text| line.push(text, &mut put));
    }

    pub(crate) fn finish(mut self, mut put: impl FnMut(&str)) {
        let line = &mut self.line;
        for decoder in [&mut self.output, &mut self.errors] {
            if !decoder.unfinished.is_empty() {
                line.push("\u{fffd}", &mut put);
            }
        }
        put(&self.line.text);
    }
}

/// One stream: bytes to text without escape sequences. Carriage returns are kept.
#[derive(Debug, Default)]
struct StreamCleaner {
    /// The first bytes of an incomplete character.
    unfinished: Vec<u8>,
    state: EscapeState,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EscapeState {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate character.
    Intermediate,
    /// After ESC and `[`: parameters, then a final letter.
    Control,
    /// A title, a link or other data, until ST or BEL.
    Data { length: usize, after_escape: bool },
}

impl StreamCleaner {
    fn push(&mut self, bytes: &[u8], put: &mut impl FnMut(&str)) {
        let joined;
        let bytes = if self.unfinished.is_empty() {
            bytes
        } else {
            joined = [&self.unfinished, bytes].concat();
            self.unfinished.clear();
            &joined
        };
        let mut rest = bytes;
        for chunk in bytes.utf8_chunks() {
            self.text(chunk.valid(), put);
            let invalid = chunk.invalid();
            rest = &rest[chunk.valid().len() + invalid.len()..];
            if invalid.is_empty() {
                continue;
            }
            if rest.is_empty() && is_incomplete_char(invalid) {
                self.unfinished = invalid.to_vec();
            } else {
                self.text("\u{fffd}", put);
            }
        }
    }

    fn text(&mut self, mut text: &str, put: &mut impl FnMut(&str)) {
        while !text.is_empty() {
            if self.state == EscapeState::Text {
                let plain = text.bytes().position(is_special).unwrap_or(text.len());
                if plain > 0 {
                    put(&text[..plain]);
                    text = &text[plain..];
                    continue;
                }
            }
            let Some(character) = text.chars().next() else {
                return;
            };
            let length = character.len_utf8();
            let (state, is_shown) = next_state(self.state, character);
            self.state = state;
            if is_shown {
                put(&text[..length]);
            }
            text = &text[length..];
        }
    }
}

/// Whether the bytes are the start of an incomplete character.
fn is_incomplete_char(bytes: &[u8]) -> bool {
    let needed = match bytes[0] {
        0xc2..=0xdf => 2,
        0xe0..=0xef => 3,
        0xf0..=0xf4 => 4,
        _ => return false,
    };
    bytes.len() < needed
}

/// Bytes that may start something other than plain text. 0xc2 starts the control characters from
/// U+0080 on.
fn is_special(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') || byte == 0x7f || byte == 0xc2
}

/// The next state, and whether the character is part of the text.
fn next_state(state: EscapeState, character: char) -> (EscapeState, bool) {
    use EscapeState::{Control, Data, Escape, Intermediate, Text};
    let data = Data {
        length: 0,
        after_escape: false,
    };
    match (state, character) {
        (Data { length, .. }, _) if length >= MAX_SEQUENCE_CHARS => next_state(Text, character),
        (Data { .. }, '\n') => (Text, true),
        (Data { .. }, '\u{7}' | '\u{9c}') => (Text, false),
        (
            Data {
                after_escape: true, ..
            },
            '\\',
        ) => (Text, false),
        (Data { length, .. }, character) => {
            let length = length + 1;
            let after_escape = character == '\u{1b}';
            (
                Data {
                    length,
                    after_escape,
                },
                false,
            )
        }
        (_, '\u{1b}') => (Escape, false),
        (Escape, '[') | (Text, '\u{9b}') => (Control, false),
        (Escape, ']' | 'P' | 'X' | '^' | '_') => (data, false),
        (Text, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => (data, false),
        (Escape | Intermediate, ' '..='/') => (Intermediate, false),
        (Escape | Intermediate, '0'..='~') => (Text, false),
        (Control, ' '..='?') => (Control, false),
        (Control, '@'..='~') => (Text, false),
        (_, '\n' | '\t' | '\r') => (Text, true),
        (_, character) => (Text, !character.is_control()),
    }
}

/// The current line. After a carriage return, new text replaces it.
#[derive(Debug, Default)]
struct LineBuffer {
    text: String,
    returned: bool,
}

impl LineBuffer {
    fn push(&mut self, text: &str, put: &mut impl FnMut(&str)) {
        for piece in text.split_inclusive(['\n', '\r']) {
            let (piece, end) = match piece.as_bytes().last() {
                Some(b'\n') => (&piece[..piece.len() - 1], Some('\n')),
                Some(b'\r') => (&piece[..piece.len() - 1], Some('\r')),
                _ => (piece, None),
            };
            if !piece.is_empty() {
                if std::mem::take(&mut self.returned) {
                    self.text.clear();
                }
                self.text.push_str(piece);
            }
            match end {
                Some('\n') => {
                    self.returned = false;
                    self.text.push('\n');
                    put(&self.text);
                    self.text.clear();
                }
                Some(_) => self.returned = true,
                None => {}
            }
            if self.text.len() > MAX_LINE_BYTES {
                put(&self.text);
                self.text.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn clean(pieces: &[&[u8]]) -> String {
        let mut cleaner = OutputCleaner::default();
        let mut text = String::new();
        for piece in pieces {
            cleaner.push(piece, false, |piece| text.push_str(piece));
        }
        cleaner.finish(|piece| text.push_str(piece));
        text
    }

    #[test]
    fn escape_sequences_and_overwritten_text_are_removed() {
        let check = |printed: &[u8], expect: &str| {
            assert_eq!(clean(&[printed]), expect, "{}", printed.escape_ascii());
            let bytes: Vec<&[u8]> = printed.chunks(1).collect();
            assert_eq!(
                clean(&bytes),
                expect,
                "byte by byte: {}",
                printed.escape_ascii()
            );
        };
        check(b"", "");
        check(b"plain\n\ttext", "plain\n\ttext");
        check(
            b"\x1b[1;31mred\x1b[0m \x1b[38;2;1;2;3mtrue\x1b[m\n",
            "red true\n",
        );
        check(b"\x1b[2J\x1b[H\x1b[?25ltop\x1b[K", "top");
        check(
            b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\",
            "alink",
        );
        check(b"\x1b(Ba\x1b=b\x1bMc\x1b7d", "abcd");
        check(b"\x1bPdata\x1b\\x\x1b_app\x1b\\y\xc2\x9bmz", "xyz");
        check(b"a\x00b\x08c\x07d\x7fe\xc2\x85f\x0bg", "abcdefg");
        // An unterminated sequence hides only its own line.
        check(b"\x1b]0;never ends\nshown", "\nshown");
        check(b"\x1b[12\nshown\x1b", "\nshown");
        // Progress bars.
        check(b" 10%\r 50%\r100%\n", "100%\n");
        check(b" 10%\r 50%\r100%\r\ndone", "100%\ndone");
        check(b"dos\r\nlines\r\n", "dos\nlines\n");
        check(b"a\r\r\nb\r", "a\nb");
        check(
            b"\x1b[32m 1/2\x1b[0m\r\x1b[K\x1b[32m 2/2\x1b[0m\r\n",
            " 2/2\n",
        );
        // Invalid UTF-8.
        check(
            "gr\u{fc}\u{df}e \u{1f980} \u{a0}".as_bytes(),
            "gr\u{fc}\u{df}e \u{1f980} \u{a0}",
        );
        check(b"a\xffb\xe2\x82c\xf0\x9f", "a\u{fffd}b\u{fffd}c\u{fffd}");
        check(b"\xe2\x82", "\u{fffd}");
        let long = "x".repeat(300_000);
        assert_eq!(
            clean(&[long.as_bytes(), b"\rend"]).len(),
            clean(&[long.as_bytes()]).len() + 3
        );
        let hidden = [b"\x1b]0;".as_slice(), "y".repeat(10_000).as_bytes()].concat();
        assert_eq!(clean(&[&hidden]).len(), 10_000 - MAX_SEQUENCE_CHARS + 2);
    }

    #[test]
    fn errors_do_not_break_a_character_of_the_output() {
        let mut cleaner = OutputCleaner::default();
        let mut text = String::new();
        for (bytes, is_error) in [
            (b"\xe2\x82".as_slice(), false),
            (b"\x1b[3", true),
            (b"\xac ok ", false),
            (b"1merr\n", true),
        ] {
            cleaner.push(bytes, is_error, |piece| text.push_str(piece));
        }
        cleaner.finish(|piece| text.push_str(piece));
        assert_eq!(text, "\u{20ac} ok err\n");
    }

    proptest! {
        /// The result does not depend on how the bytes are split, and contains no control
        /// characters.
        #[test]
        fn the_result_does_not_depend_on_how_bytes_are_split(
            bytes in proptest::collection::vec(
                prop_oneof![any::<u8>(), prop::sample::select(b"\x1b[]m\r\n\x07\\0;a\xe2\x82\xac".to_vec())],
                0..400,
            ),
            size in 1..9usize,
        ) {
            let whole = clean(&[&bytes]);
            let pieces: Vec<&[u8]> = bytes.chunks(size).collect();
            prop_assert_eq!(&whole, &clean(&pieces));
            prop_assert!(!whole.chars().any(|one| one.is_control() && one != '\n' && one != '\t'));
        }
    }
}
