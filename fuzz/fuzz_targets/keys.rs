//! The bytes of a terminal: any of them are keys, mouse events, pastes or answers, the same ones
//! however the bytes are split.

#![no_main]

use hotcell_fuzz::split;
use libfuzzer_sys::fuzz_target;

#[path = "../../crates/tui/src/terminal"]
mod terminal {
    #[allow(dead_code, reason = "the terminal UI uses the rest")]
    mod decoder;

    use self::decoder::{InputDecoder, TerminalInput};

    /// Decodes pieces, each received by one read. Finally, an incomplete sequence times out.
    pub(super) fn decode(pieces: &[&[u8]], is_colour_queried: bool) -> Vec<String> {
        let mut decoder = InputDecoder::default();
        if is_colour_queried {
            decoder.expect_colour();
        }
        let mut inputs = Vec::new();
        for piece in pieces {
            decoder.feed(piece);
            inputs.extend(std::iter::from_fn(|| decoder.next()));
        }
        // The first timeout may leave an escape character, which the second one ends.
        decoder.expire();
        decoder.expire();
        assert!(!decoder.has_partial_sequence());
        inputs.extend(std::iter::from_fn(|| decoder.next()));
        inputs.iter().map(describe).collect()
    }

    fn describe(input: &TerminalInput) -> String {
        if let TerminalInput::Background(parts) = input {
            assert!(parts.iter().all(|part| (0.0..=1.0).contains(part)));
        }
        format!("{input:?}")
    }
}

/// Ends a paste if it is received alone, so how the bytes are split matters there.
const CTRL_C: u8 = 3;

fuzz_target!(|input: (Vec<u8>, Vec<u16>, bool)| {
    let (bytes, lengths, is_colour_queried) = input;
    let whole = terminal::decode(&[&bytes], is_colour_queried);
    assert!(whole.len() <= bytes.len());
    let pieces = split(&bytes, &lengths);
    let split = terminal::decode(&pieces, is_colour_queried);
    if bytes != [CTRL_C] && !pieces.contains(&&[CTRL_C][..]) {
        assert_eq!(whole, split);
    }
});
