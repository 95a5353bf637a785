//! Bytes from terminals, and how they are decoded.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseEventKind};
use proptest::prelude::*;

use super::{InputDecoder, TerminalInput};

/// All decoded inputs as text; `!` where more bytes are needed.
fn decode_all(decoder: &mut InputDecoder) -> String {
    let mut words: Vec<String> = std::iter::from_fn(|| decoder.next())
        .map(|received| match received {
            TerminalInput::Key(key) => key_text(key),
            TerminalInput::Mouse(mouse) => {
                let kind = match mouse.kind {
                    MouseEventKind::Down(button) => format!("{button:?}"),
                    kind => format!("{kind:?}"),
                };
                format!("{kind}@{},{}", mouse.column, mouse.row)
            }
            TerminalInput::Paste(text) => format!("{text:?}"),
            TerminalInput::Background(parts) => format!("{parts:?}"),
            TerminalInput::Present => "present".to_owned(),
            TerminalInput::Attributes => "attributes".to_owned(),
        })
        .collect();
    if decoder.has_partial_sequence() {
        words.push("!".to_owned());
    }
    words.join(" ")
}

fn key_text(key: KeyEvent) -> String {
    let modifiers = [
        (KeyModifiers::CONTROL, "Ctrl-"),
        (KeyModifiers::ALT, "Alt-"),
        (KeyModifiers::SHIFT, "Shift-"),
        (KeyModifiers::SUPER, "Super-"),
    ];
    let modifiers = modifiers
        .iter()
        .filter(|(one, _)| key.modifiers.contains(*one));
    let modifiers: String = modifiers.map(|(_, name)| *name).collect();
    match key.code {
        KeyCode::Char(' ') => modifiers + "Space",
        KeyCode::Char(character) => modifiers + &character.to_string(),
        code => format!("{modifiers}{code:?}"),
    }
}

#[track_caller]
fn check(bytes: &str, expect: &str) {
    let mut decoder = InputDecoder::default();
    decoder.feed(bytes.as_bytes());
    assert_eq!(decode_all(&mut decoder), expect, "{bytes:?}");
}

#[test]
fn characters() {
    check("aZ é", "a Shift-Z Space é");
    check("日本", "日 本");
    check("\r\t\x7f\n", "Enter Tab Backspace Ctrl-j");
    check(
        "\x01\x03\x1a\x1c\x1f\0",
        "Ctrl-a Ctrl-c Ctrl-z Ctrl-4 Ctrl-7 Ctrl-Space",
    );
    // Eight-bit control characters are not typed characters.
    check("a\u{9b}b\u{85}c", "a b c");
}

#[test]
fn alt_is_an_escape_before_a_key() {
    check(
        "\x1bx\x1bX\x1b\r\x1b\x7f",
        "Alt-x Alt-Shift-X Alt-Enter Alt-Backspace",
    );
    check("\x1bé\x1b\x03", "Alt-é Ctrl-Alt-c");
    check("\x1bO1", "Alt-Shift-O 1");
    check("\x1b]2;title\x07", "Alt-] 2 ; t i t l e Ctrl-g");
}

#[test]
fn keys_with_names() {
    check(
        "\x1b[A\x1b[B\x1b[C\x1b[D\x1b[H\x1b[F",
        "Up Down Right Left Home End",
    );
    check("\x1bOA\x1bOD\x1bOP\x1bOM\x1bOx", "Up Left F(1) Enter 8");
    check(
        "\x1b[1~\x1b[3~\x1b[5~\x1b[6~\x1b[8~",
        "Home Delete PageUp PageDown End",
    );
    check("\x1b[15~\x1b[17~\x1b[24~\x1b[[A", "F(5) F(6) F(12) F(1)");
    check("\x1b[Z", "Shift-BackTab");
    check(
        "\x1b[1;5H\x1b[1;5F\x1b[1;3A\x1b[5;2~",
        "Ctrl-Home Ctrl-End Alt-Up Shift-PageUp",
    );
    check("\x1b[99;1R\x1b[200;1x\x1b[I\x1b[O", "F(3)");
}

#[test]
fn kitty_and_xterm_key_encodings() {
    check("\x1b[13;2u\x1b[27;2;13~", "Shift-Enter Shift-Enter");
    check("\x1b[27u\x1b[99;5u\x1b[97;6u", "Esc Ctrl-c Ctrl-Shift-A");
    check("\x1b[9;2u\x1b[127;3u", "Shift-BackTab Alt-Backspace");
    // Locks are not modifiers, a release is not a key, and the shifted form may be included.
    check("\x1b[27;129u\x1b[97;1:3u\x1b[49:33;4u", "Esc Alt-Shift-1");
    check("\x1b[57414u\x1b[57400u\x1b[57419u\x1b[57441u", "Enter 1 Up");
}

#[test]
fn the_mouse() {
    check(
        "\x1b[<0;1;1M\x1b[<0;1;1m\x1b[<64;80;24M\x1b[<65;3;4M",
        "Left@0,0 ScrollUp@79,23 ScrollDown@2,3",
    );
    check("\x1b[<35;5;5M\x1b[<0;0;0M\x1b[<0;1M\x1b[<;;M", "");
    check("\x1b[M !!\x1b[Ma%&", "Left@0,0 ScrollDown@4,5");
}

#[test]
fn pastes() {
    check(
        "\x1b[200~one\rtwo\r\nthree\n\x1b[201~y",
        r#""one\ntwo\nthree\n" y"#,
    );
    check(
        "\x1b[200~\x1b[A\x03\x1b\x1b[201~\x1b[B",
        r#""\u{1b}[A\u{3}\u{1b}" Down"#,
    );
    check("\x1b[200~\x1b[201~", r#""""#);
}

#[test]
fn a_paste_without_end_is_ended_by_a_key() {
    let mut decoder = InputDecoder::default();
    decoder.feed(b"\x1b[200~text\x03more");
    assert_eq!(decode_all(&mut decoder), "");
    assert!(!decoder.is_idle() && !decoder.has_partial_sequence());
    decoder.feed(b"\x03");
    assert_eq!(decode_all(&mut decoder), r#""text\u{3}more""#);
    decoder.feed(b"\x03");
    assert_eq!(decode_all(&mut decoder), "Ctrl-c");
}

#[test]
fn partial_key_sequences() {
    let check = |bytes: &str, before: &str, after: &str| {
        let mut decoder = InputDecoder::default();
        decoder.feed(bytes.as_bytes());
        assert_eq!(decode_all(&mut decoder), before, "{bytes:?}");
        decoder.expire();
        assert_eq!(decode_all(&mut decoder), after, "{bytes:?}");
        assert!(decoder.is_idle(), "{bytes:?}");
    };
    check("\x1b", "!", "Esc");
    check("\x1b\x1b", "Esc !", "Esc");
    check("\x1b[", "!", "Alt-[");
    check("x\x1bO", "x !", "Alt-Shift-O");
    check("\x1b[1;5", "!", "");
    check("\x1b[<0;1", "!", "");
}

#[test]
fn requested_terminal_answers() {
    let check = |bytes: &str, expect: &str| {
        let mut decoder = InputDecoder::default();
        decoder.expect_colour();
        decoder.feed(bytes.as_bytes());
        assert_eq!(decode_all(&mut decoder), expect, "{bytes:?}");
    };
    check("\x1b]11;rgb:ffff/0000/8080\x07x", "[1.0, 0.0, 0.5019608] x");
    check("\x1b]11;rgb:ff/ff/ff\x1b\\x", "[1.0, 1.0, 1.0] x");
    check("\x1b]11;rgba:0/0/0/0\x07", "[0.0, 0.0, 0.0]");
    check("\x1b]11;rgb:\x07\x1b]11;\x07", "");
    check(
        "\x1b[?62;4;22c\x1b]11;rgb:0/0/0\x07",
        "attributes Alt-] 1 1 ; r g b : 0 / 0 / 0 Ctrl-g",
    );
    check("\x1b[0n", "present");
    // Typed text that looks like an answer stays text.
    check("\x1b]hello", "Alt-] h e l l o");
    check("\x1b]11;what", "Alt-] 1 1 ; w h a t");
}

#[test]
fn a_partial_answer_is_returned_as_keys() {
    let mut decoder = InputDecoder::default();
    decoder.expect_colour();
    decoder.feed(b"\x1b]11");
    assert_eq!(decode_all(&mut decoder), "!");
    decoder.expire();
    assert_eq!(decode_all(&mut decoder), "Alt-] 1 1");
    assert!(decoder.expects_answer());
}

#[test]
fn an_overlong_sequence_ends_at_the_same_byte_however_split() {
    let digits = "1".repeat(200);
    for bytes in [format!("\x1b[{digits}A"), format!("\x1b]11;{digits}\x07")] {
        let mut whole = InputDecoder::default();
        let mut split = InputDecoder::default();
        whole.expect_colour();
        split.expect_colour();
        whole.feed(bytes.as_bytes());
        for byte in bytes.as_bytes() {
            split.feed(&[*byte]);
        }
        assert_eq!(decode_all(&mut whole), decode_all(&mut split), "{bytes:?}");
    }
}

proptest! {
    /// The result does not depend on where the bytes are cut, and no input panics.
    #[test]
    fn any_bytes_in_any_pieces(
        pieces in prop::collection::vec(prop_oneof![
            prop::collection::vec(any::<u8>(), 0..12),
            "\\x1b\\[[0-9;:<?]{0,8}[A-Za-z~]".prop_map(String::into_bytes),
            Just(b"\x1b[200~".to_vec()),
            Just(b"\x1b[201~".to_vec()),
            Just(b"\x1b]11;rgb:0/0/0\x1b\\".to_vec()),
            "\\PC{0,4}".prop_map(String::into_bytes),
        ], 0..12),
        cuts in prop::collection::vec(1_usize..7, 1..20),
    ) {
        let bytes = pieces.concat();
        let mut whole = InputDecoder::default();
        whole.expect_colour();
        whole.feed(&bytes);
        let mut cut = InputDecoder::default();
        cut.expect_colour();
        let mut rest = &bytes[..];
        for length in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (mut piece, mut behind) = rest.split_at(rest.len().min(*length));
            // As the only byte of a read during a paste, Ctrl-C ends the paste.
            if piece == b"\x03" {
                (piece, behind) = rest.split_at(rest.len().min(2));
            }
            if piece != b"\x03" {
                cut.feed(piece);
            } else {
                return Ok(());
            }
            rest = behind;
        }
        prop_assert_eq!(decode_all(&mut whole), decode_all(&mut cut));
    }
}
