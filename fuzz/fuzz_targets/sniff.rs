//! The first bytes of a tunnel: the detected protocol does not depend on how the bytes are split,
//! and bytes that an HTTP server would accept are never taken for another protocol.

#![no_main]

use hotcell_fuzz::split;
use libfuzzer_sys::fuzz_target;

use self::sniff::{SniffedProtocol, sniff};

#[path = "../../crates/egress/src/sniff.rs"]
mod sniff;
#[path = "../../crates/egress/src/tls.rs"]
mod tls;

fuzz_target!(|input: (Vec<u8>, Vec<u16>)| {
    let (bytes, lengths) = input;
    let whole = sniff(&bytes, false);
    let mut received = Vec::new();
    for piece in split(&bytes, &lengths) {
        received.extend_from_slice(piece);
        match sniff(&received, false) {
            SniffedProtocol::NeedMore => {}
            detected => {
                assert_eq!(detected, whole);
                break;
            }
        }
    }
    let ended = sniff(&bytes, true);
    assert_ne!(ended, SniffedProtocol::NeedMore);
    if whole == SniffedProtocol::NeedMore {
        assert!(bytes.len() < tls::MAX_HELLO_BYTES);
    } else {
        assert_eq!(ended, whole);
    }
    if let SniffedProtocol::Tls(Some(name)) = &ended {
        assert!(!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    let mut headers = [httparse::EMPTY_HEADER; 64];
    if let Ok(httparse::Status::Complete(_)) = httparse::Request::new(&mut headers).parse(&bytes) {
        assert_eq!(whole, SniffedProtocol::Http);
    }
});
