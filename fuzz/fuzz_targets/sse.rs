//! Server-sent events from a model server: any bytes are events of bounded size or an error, the
//! same ones however the bytes are split.

#![no_main]

use hotcell_fuzz::split;
use libfuzzer_sys::fuzz_target;

use self::sse::{SseDecoder, SseError, SseEvent};

#[path = "../../crates/llm/src/sse.rs"]
mod sse;

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (stream, lengths) = input;
    let whole = decode(&[&stream]);
    assert_eq!(whole, decode(&split(&stream, &lengths)));
    let size: usize = whole
        .0
        .iter()
        .map(|event| event.name.len() + event.data.len())
        .sum();
    assert!(size <= stream.len());
});

fn decode(pieces: &[&[u8]]) -> (Vec<SseEvent>, Result<Option<SseEvent>, SseError>) {
    let mut decoder = SseDecoder::default();
    let mut events = Vec::new();
    for piece in pieces {
        decoder.push(piece);
        loop {
            match decoder.next_event() {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(error) => return (events, Err(error)),
            }
        }
    }
    (events, decoder.finish())
}
