//! Tells by its first bytes what a client speaks inside a tunnel. Pure; entry: [`sniff`].
//!
//! In doubt it says HTTP, because only HTTP and TLS choose a host by a name in the stream, and what
//! is HTTP is parsed and checked request by request.

use crate::tls::{self, Hello};

/// What the bytes so far are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sniff {
    /// Not enough bytes to tell.
    NeedMore,
    /// TLS, for this server name.
    Tls(Option<String>),
    /// TLS with a hello that cannot be trusted.
    BadTls,
    /// HTTP/1.
    Http,
    /// HTTP/2 without TLS, which this proxy does not read.
    Http2,
    /// Something else.
    Other,
}

/// A first line that is longer is taken as it is.
const MAX_LINE: usize = 16 << 10;
/// No method is longer.
const MAX_METHOD: usize = 64;

/// Looks at the first bytes that a client sent; `ended` if no more will come.
pub(crate) fn sniff(bytes: &[u8], ended: bool) -> Sniff {
    match tls::read_hello(bytes) {
        Hello::NotTls => sniff_http(bytes, ended),
        Hello::Sni(name) => Sniff::Tls(name),
        Hello::Malformed => Sniff::BadTls,
        Hello::NeedMore if !ended => Sniff::NeedMore,
        Hello::NeedMore if bytes.len() < 2 => Sniff::Other,
        Hello::NeedMore => Sniff::BadTls,
    }
}

fn sniff_http(bytes: &[u8], ended: bool) -> Sniff {
    // Servers skip empty lines before a request, and some of them blanks.
    let start = bytes
        .iter()
        .take_while(|byte| b"\r\n \t".contains(byte))
        .count();
    let line = bytes[start..]
        .split(|&byte| byte == b'\n')
        .next()
        .unwrap_or_default();
    let full = ended || start + line.len() < bytes.len() || bytes.len() >= MAX_LINE;

    let method = line.iter().take_while(|&&byte| is_token(byte)).count();
    if line.is_empty() && bytes.len() >= MAX_LINE {
        return Sniff::Http;
    }
    if method == line.len() && method <= MAX_METHOD {
        return if full { Sniff::Other } else { Sniff::NeedMore };
    }
    if method == 0 || method > MAX_METHOD || !matches!(line[method], b' ' | b'\t') {
        return Sniff::Other;
    }
    // Other protocols have words and spaces too (`EHLO me`, `SSH-2.0-x y`), but no version.
    if line.starts_with(b"PRI * HTTP/2") {
        Sniff::Http2
    } else if line
        .windows(5)
        .any(|part| part.eq_ignore_ascii_case(b"HTTP/"))
    {
        // The version may still be cut (`PRI * HTTP/`); wait for the line.
        if full { Sniff::Http } else { Sniff::NeedMore }
    } else if bytes.len() >= MAX_LINE {
        Sniff::Http
    } else if full {
        Sniff::Other
    } else {
        Sniff::NeedMore
    }
}

fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_told_apart() {
        for (bytes, open, ended) in [
            (&b""[..], Sniff::NeedMore, Sniff::Other),
            (b"GET", Sniff::NeedMore, Sniff::Other),
            (b"GET / HT", Sniff::NeedMore, Sniff::Other),
            (b"GET / HTTP/1.1", Sniff::NeedMore, Sniff::Http),
            (b"GET / HTTP/1.1\r\n", Sniff::Http, Sniff::Http),
            (b"\r\n\r\nGET / HTTP/1.1\r\n", Sniff::Http, Sniff::Http),
            (b"\r\n", Sniff::NeedMore, Sniff::Other),
            (b"get\t/ http/1.1\n", Sniff::Http, Sniff::Http),
            (b"M-SEARCH * HTTP/1.1\r\n", Sniff::Http, Sniff::Http),
            (
                b"CONNECT evil.com:443 HTTP/1.1\r\n",
                Sniff::Http,
                Sniff::Http,
            ),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                Sniff::Http2,
                Sniff::Http2,
            ),
            (
                b"SSH-2.0-OpenSSH_9.2 Debian-2\r\n",
                Sniff::Other,
                Sniff::Other,
            ),
            (b"SSH-2.0-OpenSSH_9.2\r\n", Sniff::Other, Sniff::Other),
            (b"EHLO me\r\n", Sniff::Other, Sniff::Other),
            (b"*1\r\n$4\r\nPING\r\n", Sniff::Other, Sniff::Other),
            (b"\0\0\0\x08\x04\xd2\x16\x2f", Sniff::Other, Sniff::Other),
            (b" GET / HTTP/1.1\r\n", Sniff::Http, Sniff::Http),
            (b"\x16", Sniff::NeedMore, Sniff::Other),
            (b"\x16\x03\x01", Sniff::NeedMore, Sniff::BadTls),
            (b"\x16\x03\x01\0\0", Sniff::BadTls, Sniff::BadTls),
        ] {
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(sniff(bytes, false), open, "{text:?}");
            assert_eq!(sniff(bytes, true), ended, "{text:?}, ended");
        }
        let endless = [b"GET /", &[b'a'; MAX_LINE][..]].concat();
        assert_eq!(sniff(&endless, false), Sniff::Http);
        assert_eq!(sniff(&[b'\n'; MAX_LINE], false), Sniff::Http);
        assert_eq!(sniff(&[b'a'; MAX_METHOD + 1], false), Sniff::Other);
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_told_within_bounds(bytes in proptest::collection::vec(0..=255u8, 0..100)) {
            proptest::prop_assert_ne!(sniff(&bytes, true), Sniff::NeedMore);
            let long = [bytes, vec![b'a'; tls::MAX_HELLO]].concat();
            proptest::prop_assert_ne!(sniff(&long, false), Sniff::NeedMore);
        }
    }
}
