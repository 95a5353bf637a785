//! Detects the protocol inside a tunnel by the first bytes of the client. Pure; entry: [`sniff`].
//!
//! Only HTTP and TLS select a host by a name in the stream. So bytes that a server could read as one
//! of them are reported as such, and then parsed and checked. The rule for HTTP: after blank lines and
//! blanks, a word of token characters (a method, of any length), then white space, then in the same
//! line either `HTTP/` or a target that begins with `/`, `http:` or `https:` (HTTP/0.9 has no
//! version). A first line that has not ended after [`MAX_FIRST_LINE_BYTES`] bytes counts as HTTP too. Everything
//! else is [`SniffedProtocol::Other`], which is allowed only by a rule with a port.

use crate::tls::{self, ParsedHello};

/// The protocol of the bytes so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SniffedProtocol {
    /// More bytes are needed.
    NeedMore,
    /// TLS with this server name, if any.
    Tls(Option<String>),
    /// TLS with a malformed hello.
    BadTls,
    /// HTTP/1.
    Http,
    /// HTTP/2 without TLS, which this proxy does not parse.
    Http2,
    /// Something else.
    Other,
}

/// A longer first line is treated as HTTP, whose parser then refuses or checks it.
const MAX_FIRST_LINE_BYTES: usize = 16 << 10;

/// Inspects the first bytes of a client; `ended` if no more will come.
pub(crate) fn sniff(bytes: &[u8], ended: bool) -> SniffedProtocol {
    match tls::read_hello(bytes) {
        ParsedHello::NotTls => sniff_http(bytes, ended),
        ParsedHello::Sni(name) => SniffedProtocol::Tls(name),
        ParsedHello::Malformed => SniffedProtocol::BadTls,
        ParsedHello::NeedMore if !ended => SniffedProtocol::NeedMore,
        ParsedHello::NeedMore if bytes.len() < 2 => SniffedProtocol::Other,
        ParsedHello::NeedMore => SniffedProtocol::BadTls,
    }
}

fn sniff_http(bytes: &[u8], ended: bool) -> SniffedProtocol {
    let is_cut = bytes.len() >= MAX_FIRST_LINE_BYTES;
    // Later bytes must not matter, or the result would depend on how many arrive at once.
    let bytes = &bytes[..bytes.len().min(MAX_FIRST_LINE_BYTES)];
    // Servers skip empty lines before a request, and some of them blanks.
    let start = bytes.iter().take_while(|&&byte| is_blank(byte)).count();
    let mut lines = bytes[start..].split(|&byte| byte == b'\n');
    let line = lines.next().unwrap_or_default();
    let is_whole = lines.next().is_some();
    let is_too_long = is_cut && !is_whole;
    let has_ended = ended || is_whole;

    let method = line.iter().take_while(|&&byte| is_token(byte)).count();
    let Some(&after_method) = line.get(method) else {
        // Only blanks, or one unfinished word.
        return match () {
            () if is_too_long => SniffedProtocol::Http,
            () if has_ended => SniffedProtocol::Other,
            () => SniffedProtocol::NeedMore,
        };
    };
    if method == 0 || !is_blank(after_method) {
        return SniffedProtocol::Other;
    }
    // The version may be incomplete (`PRI * HTTP/`) or missing: wait for the whole line.
    match () {
        () if !has_ended && !is_too_long => SniffedProtocol::NeedMore,
        () if line.starts_with(b"PRI * HTTP/2") => SniffedProtocol::Http2,
        () if is_too_long || is_request_line(&line[method..]) => SniffedProtocol::Http,
        // Other protocols also start with words and blanks: `EHLO me`, `SSH-2.0-x y`.
        () => SniffedProtocol::Other,
    }
}

/// Whether a server could read a line as a request. The argument is the part after the method.
fn is_request_line(rest: &[u8]) -> bool {
    let has_version = rest
        .windows(5)
        .any(|part| part.eq_ignore_ascii_case(b"HTTP/"));
    // Old servers accept a request without a version or with an unknown version.
    let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
    let target = rest[blanks..].to_ascii_lowercase();
    let has_web_target = [&b"/"[..], b"http:", b"https:"]
        .iter()
        .any(|prefix| target.starts_with(prefix));
    has_version || has_web_target
}

/// The characters that RFC 9112 lets a server accept as a space in a request line.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | 0x0b | 0x0c)
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
            (&b""[..], SniffedProtocol::NeedMore, SniffedProtocol::Other),
            (b"GET", SniffedProtocol::NeedMore, SniffedProtocol::Other),
            (
                b"GET / HT",
                SniffedProtocol::NeedMore,
                SniffedProtocol::Http,
            ),
            (
                b"GET / HTTP/1.1",
                SniffedProtocol::NeedMore,
                SniffedProtocol::Http,
            ),
            (
                b"GET / HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"\r\n\r\nGET / HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (b"\r\n", SniffedProtocol::NeedMore, SniffedProtocol::Other),
            (
                b"get\t/ http/1.1\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"M-SEARCH * HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"CONNECT evil.com:443 HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                SniffedProtocol::Http2,
                SniffedProtocol::Http2,
            ),
            (
                b"SSH-2.0-OpenSSH_9.2 Debian-2\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"SSH-2.0-OpenSSH_9.2\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"EHLO me\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"*1\r\n$4\r\nPING\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"\0\0\0\x08\x04\xd2\x16\x2f",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b" GET / HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            // Other white space that some servers accept as a space.
            (
                b"GET\x0b/\x0cHTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"\x0cGET / HTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"GET\r/\rHTTP/1.1\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            // HTTP/0.9, and a version that an old server may read as 1.0.
            (b"GET /\r\n", SniffedProtocol::Http, SniffedProtocol::Http),
            (b"GET /", SniffedProtocol::NeedMore, SniffedProtocol::Http),
            (
                b"get HTTP://evil.com/\r\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"GET https://evil.com/ X/1\n",
                SniffedProtocol::Http,
                SniffedProtocol::Http,
            ),
            (
                b"OPTIONS rtsp://a.com/ RTSP/1.0\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"NICK me\r\nUSER /x HTTP/1.1\r\n",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (
                b"<?xml version='1.0'?>",
                SniffedProtocol::Other,
                SniffedProtocol::Other,
            ),
            (b"\x16", SniffedProtocol::NeedMore, SniffedProtocol::Other),
            (
                b"\x16\x03\x01",
                SniffedProtocol::NeedMore,
                SniffedProtocol::BadTls,
            ),
            (
                b"\x16\x03\x01\0\0",
                SniffedProtocol::BadTls,
                SniffedProtocol::BadTls,
            ),
        ] {
            let text = String::from_utf8_lossy(bytes);
            assert_eq!(sniff(bytes, false), open, "{text:?}");
            assert_eq!(sniff(bytes, true), ended, "{text:?}, ended");
        }
        let endless = [b"GET /", &[b'a'; MAX_FIRST_LINE_BYTES][..]].concat();
        assert_eq!(sniff(&endless, false), SniffedProtocol::Http);
        assert_eq!(
            sniff(&[b'\n'; MAX_FIRST_LINE_BYTES], false),
            SniffedProtocol::Http
        );
        assert_eq!(
            sniff(&[b'A'; MAX_FIRST_LINE_BYTES], false),
            SniffedProtocol::Http
        );
        assert_eq!(
            sniff(&[b'A'; MAX_FIRST_LINE_BYTES - 1], false),
            SniffedProtocol::NeedMore
        );
        for length in [65, 1000, MAX_FIRST_LINE_BYTES] {
            let method = "A".repeat(length);
            let request = format!("{method} / HTTP/1.1\r\n");
            assert_eq!(
                sniff(request.as_bytes(), false),
                SniffedProtocol::Http,
                "{length}"
            );
        }
    }

    #[test]
    fn bytes_after_the_first_line_do_not_matter() {
        for line in ["PING\r\n", "SET a b\n"] {
            let long = [line.as_bytes(), &[b'a'; MAX_FIRST_LINE_BYTES]].concat();
            assert_eq!(sniff(&long, false), SniffedProtocol::Other, "{line:?}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_told_within_bounds(bytes in proptest::collection::vec(0..=255u8, 0..100)) {
            proptest::prop_assert_ne!(sniff(&bytes, true), SniffedProtocol::NeedMore);
            let long = [bytes, vec![b'a'; tls::MAX_HELLO_BYTES]].concat();
            proptest::prop_assert_ne!(sniff(&long, false), SniffedProtocol::NeedMore);
        }
    }
}
