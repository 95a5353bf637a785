//! Reads the server name from the first bytes of a TLS connection. Pure; entry: [`read_hello`].
//!
//! Never decrypts anything: the name is unencrypted in the ClientHello. A hello that different parsers
//! could read differently (two names, inconsistent lengths) is malformed. The content of an encrypted
//! hello is not visible here.

/// The result for the bytes so far. Further bytes change it only while it is [`ParsedHello::NeedMore`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedHello {
    /// More bytes are needed.
    NeedMore,
    /// This is not TLS.
    NotTls,
    /// A complete ClientHello, with or without a server name.
    Sni(Option<String>),
    /// It begins like TLS but is not a valid, unambiguous ClientHello.
    Malformed,
}

/// A hello that is not complete within this many bytes is malformed. Typical ones have 200 to 2000.
pub const MAX_HELLO_BYTES: usize = 64 << 10;

const HANDSHAKE_RECORD: u8 = 22;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME_EXTENSION: u16 = 0;
const HOST_NAME_TYPE: u8 = 0;
/// Largest payload of a record.
const MAX_RECORD_BYTES: usize = 1 << 14;

/// Parses the first bytes of a client.
pub fn read_hello(bytes: &[u8]) -> ParsedHello {
    match bytes {
        [] | [HANDSHAKE_RECORD] => return ParsedHello::NeedMore,
        // All versions of TLS have 3 as the major number.
        [HANDSHAKE_RECORD, 3, ..] => {}
        _ => return ParsedHello::NotTls,
    }
    let bounded = &bytes[..bytes.len().min(MAX_HELLO_BYTES)];
    match join_handshake(bounded) {
        Ok(Some(body)) => match server_name(&body) {
            Some(name) => ParsedHello::Sni(name),
            None => ParsedHello::Malformed,
        },
        Ok(None) if bytes.len() < MAX_HELLO_BYTES => ParsedHello::NeedMore,
        Ok(None) | Err(MalformedHello) => ParsedHello::Malformed,
    }
}

struct MalformedHello;

/// Joins records to the body of the first handshake message; `None` if it is incomplete.
fn join_handshake(mut bytes: &[u8]) -> Result<Option<Vec<u8>>, MalformedHello> {
    let mut message = Vec::new();
    loop {
        // Check each header byte as early as possible: the next byte may never come.
        match bytes {
            [kind, ..] if *kind != HANDSHAKE_RECORD => return Err(MalformedHello),
            [_, major, ..] if *major != 3 => return Err(MalformedHello),
            _ => {}
        }
        let [_, _, _, high, low, rest @ ..] = bytes else {
            return Ok(None);
        };
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        if length == 0 || length > MAX_RECORD_BYTES {
            return Err(MalformedHello);
        }
        message.extend_from_slice(&rest[..length.min(rest.len())]);
        match message[..] {
            [kind, ..] if kind != CLIENT_HELLO => return Err(MalformedHello),
            [_, a, b, c, ref body @ ..] => {
                let wanted = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                if wanted > MAX_HELLO_BYTES {
                    return Err(MalformedHello);
                }
                if let Some(body) = body.get(..wanted) {
                    return Ok(Some(body.to_vec()));
                }
            }
            _ => {}
        }
        if rest.len() < length {
            return Ok(None);
        }
        bytes = &rest[length..];
    }
}

/// The name in a ClientHello; the outer `None` if the hello is malformed.
fn server_name(body: &[u8]) -> Option<Option<String>> {
    let mut hello = TlsReader(body);
    hello.take(2 + 32)?; // version, random
    let session = hello.vector8()?;
    let ciphers = hello.list16()?;
    let compression = hello.vector8()?;
    if session.0.len() > 32
        || ciphers.0.is_empty()
        || ciphers.0.len() % 2 != 0
        || compression.0.is_empty()
    {
        return None;
    }
    if hello.0.is_empty() {
        return Some(None); // before TLS 1.3 extensions are optional
    }
    let mut extensions = hello.list16()?;
    if !hello.0.is_empty() {
        return None;
    }
    let mut found = None;
    while !extensions.0.is_empty() {
        let kind = extensions.u16()?;
        let content = extensions.list16()?;
        if kind == SERVER_NAME_EXTENSION {
            if found.is_some() {
                return None;
            }
            found = Some(single_name(content)?);
        }
    }
    Some(found)
}

/// The extension contains a list, in which only one name is valid.
fn single_name(mut extension: TlsReader<'_>) -> Option<String> {
    let mut list = extension.list16()?;
    let [kind] = *list.take(1)? else { return None };
    let name = list.list16()?;
    if kind != HOST_NAME_TYPE || !list.0.is_empty() || !extension.0.is_empty() {
        return None;
    }
    let name = std::str::from_utf8(name.0).ok()?;
    (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic())).then(|| name.to_owned())
}

/// The unparsed bytes.
struct TlsReader<'a>(&'a [u8]);

impl<'a> TlsReader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u16(&mut self) -> Option<u16> {
        let bytes = self.take(2)?;
        Some(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn vector8(&mut self) -> Option<TlsReader<'a>> {
        let length = self.take(1)?[0];
        self.take(length.into()).map(TlsReader)
    }

    fn list16(&mut self) -> Option<TlsReader<'a>> {
        let length = self.u16()?;
        self.take(length.into()).map(TlsReader)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn vector16(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u16).to_be_bytes()[..], content].concat()
    }

    fn extension(kind: u16, content: &[u8]) -> Vec<u8> {
        [&kind.to_be_bytes()[..], &vector16(content)].concat()
    }

    fn names(names: &[(u8, &[u8])]) -> Vec<u8> {
        let list: Vec<u8> = names
            .iter()
            .flat_map(|(kind, name)| [vec![*kind], vector16(name)].concat())
            .collect();
        extension(SERVER_NAME_EXTENSION, &vector16(&list))
    }

    fn message(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![3, 3];
        body.extend([7; 32]);
        body.extend([0, 0, 2, 0x13, 1, 1, 0]);
        body.extend(extensions.map(vector16).unwrap_or_default());
        [
            &[CLIENT_HELLO][..],
            &(body.len() as u32).to_be_bytes()[1..],
            &body,
        ]
        .concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part| [&[HANDSHAKE_RECORD, 3, 1][..], &vector16(part)].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn hello(extensions: &[u8]) -> Vec<u8> {
        records(&message(Some(extensions)), MAX_RECORD_BYTES)
    }

    fn with_name(name: &str) -> Vec<u8> {
        let versions = extension(43, &[2, 3, 4]);
        [
            versions,
            names(&[(0, name.as_bytes())]),
            extension(0xfe0d, &[0; 40]),
        ]
        .concat()
    }

    fn sni(name: &str) -> ParsedHello {
        ParsedHello::Sni(Some(name.into()))
    }

    #[test]
    fn the_name_is_found() {
        assert_eq!(
            read_hello(&hello(&with_name("Example.com"))),
            sni("Example.com")
        );
        assert_eq!(
            read_hello(&hello(&extension(43, &[2, 3, 4]))),
            ParsedHello::Sni(None)
        );
        assert_eq!(
            read_hello(&records(&message(None), 100)),
            ParsedHello::Sni(None)
        );
        // With a post-quantum key share, the hello of some clients spans several records.
        let large = [extension(51, &[1; 40_000]), with_name("a.com")].concat();
        assert_eq!(read_hello(&hello(&large)), sni("a.com"));
    }

    #[test]
    fn every_prefix_needs_more_and_nothing_after_matters() {
        let message = message(Some(&with_name("a.example.com")));
        for size in 1..=message.len() {
            let whole = records(&message, size);
            for end in 0..whole.len() {
                assert_eq!(
                    read_hello(&whole[..end]),
                    ParsedHello::NeedMore,
                    "{size} {end}"
                );
            }
            assert_eq!(read_hello(&whole), sni("a.example.com"));
            assert_eq!(
                read_hello(&[&whole[..], b"rest"].concat()),
                sni("a.example.com")
            );
        }
    }

    #[test]
    fn what_is_not_tls_is_told_at_once() {
        for bytes in [
            &b"GET / HTTP/1.1"[..],
            b"SSH-2.0-x",
            b"\x80\x2e\x01\x03\x01",
            &[22, 2],
            &[0],
        ] {
            assert_eq!(read_hello(bytes), ParsedHello::NotTls);
        }
        assert_eq!(read_hello(&[]), ParsedHello::NeedMore);
        assert_eq!(read_hello(&[22]), ParsedHello::NeedMore);
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_malformed() {
        let one = names(&[(0, b"a.com")]);
        for extensions in [
            [&one[..], &names(&[(0, b"b.com")])].concat(),
            names(&[(0, b"a.com"), (0, b"b.com")]),
            names(&[(1, b"a.com")]),
            names(&[(0, b"")]),
            names(&[(0, b"a.com\0.b.com")]),
            names(&[(0, b"a com")]),
            names(&[(0, "ä.com".as_bytes())]),
            names(&[]),
            extension(SERVER_NAME_EXTENSION, &[]),
            one[..one.len() - 1].to_vec(),
            extension(
                SERVER_NAME_EXTENSION,
                &[&vector16(&[0, 0, 1, b'a'])[..], b"x"].concat(),
            ),
        ] {
            assert_eq!(
                read_hello(&hello(&extensions)),
                ParsedHello::Malformed,
                "{extensions:?}"
            );
        }

        let good = message(Some(&one));
        let mut longer = good.clone();
        longer.push(0);
        longer[3] += 1;
        assert_eq!(
            read_hello(&records(&longer, 999)),
            ParsedHello::Malformed,
            "bytes after extensions"
        );
        let mut server = good.clone();
        server[0] = 2;
        assert_eq!(
            read_hello(&records(&server, 999)),
            ParsedHello::Malformed,
            "not a client hello"
        );

        let split = records(&good, 20);
        let mut alert_between = split[..25].to_vec();
        alert_between.extend([21, 3, 1, 0, 2, 1, 0]);
        assert_eq!(read_hello(&alert_between), ParsedHello::Malformed);
        assert_eq!(
            read_hello(&[22, 3, 1, 0, 0]),
            ParsedHello::Malformed,
            "empty record"
        );
        assert_eq!(
            read_hello(&[22, 3, 1, 0x40, 1]),
            ParsedHello::Malformed,
            "record too long"
        );
        assert_eq!(
            read_hello(&[22, 3, 1, 0, 4, 1, 2, 0, 0]),
            ParsedHello::Malformed,
            "hello too long"
        );
    }

    #[test]
    fn a_hello_has_an_end() {
        // Each record has one byte, so the message does not complete within the limit.
        let endless = records(
            &[&[CLIENT_HELLO, 0, 0xff, 0xff][..], &[0; 0xffff]].concat(),
            1,
        );
        assert_eq!(
            read_hello(&endless[..MAX_HELLO_BYTES - 1]),
            ParsedHello::NeedMore
        );
        assert_eq!(
            read_hello(&endless[..MAX_HELLO_BYTES]),
            ParsedHello::Malformed
        );
        assert_eq!(read_hello(&endless), ParsedHello::Malformed);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_a_verdict_stands(
            start in prop_oneof![Just(vec![]), Just(vec![22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3])],
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
            more in proptest::collection::vec(any::<u8>(), 0..50),
        ) {
            let bytes = [start, bytes].concat();
            let verdict = read_hello(&bytes);
            if verdict != ParsedHello::NeedMore {
                prop_assert_eq!(read_hello(&[bytes, more].concat()), verdict);
            }
        }

        #[test]
        fn a_changed_hello_never_panics(at: prop::sample::Index, by in 1..=255u8) {
            let mut bytes = hello(&with_name("a.example.com"));
            let at = at.index(bytes.len());
            bytes[at] ^= by;
            let _ = read_hello(&bytes);
        }
    }
}
