//! Any bytes, cut in any way: the decoder hands out bounded frames or an error, the same ones
//! however they were cut, and never panics.

#![no_main]

use hotcell_fuzz::split;
use libfuzzer_sys::fuzz_target;
use link::frame::{Frame, FrameDecoder, FrameError, HEADER_LEN, MAX_PAYLOAD};

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (wire, cuts) = input;
    let whole = decode(&[&wire]);
    assert_eq!(whole, decode(&split(&wire, &cuts)));

    // What was decoded is what was sent.
    let mut sent = Vec::new();
    for frame in &whole.0 {
        sent.extend_from_slice(&frame.header());
        sent.extend_from_slice(&frame.payload);
    }
    assert!(wire.starts_with(&sent));
});

fn decode(pieces: &[&[u8]]) -> (Vec<Frame>, Option<FrameError>) {
    let mut decoder = FrameDecoder::default();
    let mut frames = Vec::new();
    for piece in pieces {
        decoder.buffer().extend_from_slice(piece);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => {
                    assert!(frame.payload.len() <= MAX_PAYLOAD);
                    frames.push(frame);
                }
                Ok(None) => break,
                Err(error) => return (frames, Some(error)),
            }
        }
        assert!(decoder.buffer().len() < MAX_PAYLOAD + HEADER_LEN);
    }
    (frames, None)
}
