//! Makes the terminal copy text to the user's clipboard (OSC 52). Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Longer text is cut: terminals accept far less, and drop the rest.
pub(super) const MAX_COPY_BYTES: usize = 1 << 20;

/// The control sequence, and how many bytes of the text it contains.
pub(super) fn sequence(text: &str, is_in_tmux: bool) -> (String, usize) {
    let length = text.floor_char_boundary(MAX_COPY_BYTES);
    let encoded = STANDARD.encode(&text[..length]);
    let plain = format!("\x1b]52;c;{encoded}\x07");
    // Depending on its settings, tmux handles the sequence itself or passes it on.
    let sequence = if is_in_tmux {
        format!("{plain}\x1bPtmux;\x1b{plain}\x1b\\")
    } else {
        plain
    };
    (sequence, length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_encoded_and_bounded() {
        let check = |text: &str, is_in_tmux: bool, expect: &str, length: usize| {
            assert_eq!(sequence(text, is_in_tmux), (expect.to_owned(), length));
        };
        check("hi", false, "\x1b]52;c;aGk=\x07", 2);
        check(
            "hi",
            true,
            "\x1b]52;c;aGk=\x07\x1bPtmux;\x1b\x1b]52;c;aGk=\x07\x1b\\",
            2,
        );
        check("\x1b]\x07", false, "\x1b]52;c;G10H\x07", 3);
        let long = "é".repeat(MAX_COPY_BYTES);
        let (sent, length) = sequence(&long, false);
        assert_eq!(length, MAX_COPY_BYTES);
        assert_eq!(
            sent.len(),
            "\x1b]52;c;\x07".len() + MAX_COPY_BYTES.div_ceil(3) * 4
        );
        assert_eq!(sequence(&format!("a{long}"), false).1, MAX_COPY_BYTES - 1);
    }
}
