//! Converts file names to text and back. Pure.
//!
//! File names are bytes. A path is encoded as text that can be decoded: bytes that are not UTF-8
//! become `%FF`, and a `%` followed by two hexadecimal digits becomes `%25`. All other text is
//! unchanged, so that most paths are not affected.

use std::fmt::Write;

/// The longest path that most programs support. Deeper files cannot be accessed.
pub(super) const MAX_PATH_BYTES: usize = 4095;

/// For display: invalid UTF-8 is replaced.
pub(crate) fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Encodes a path as text that [`unescape`] decodes.
pub(crate) fn escape(path: &[u8]) -> String {
    escape_where(path, |_, _| false)
}

/// Encodes a path so that it unpacks to the same place on every system: no control characters, no
/// backslash (a separator on some systems), no drive letter. Also returns whether the path was
/// changed.
pub(crate) fn escape_for_zip(path: &[u8]) -> (String, bool) {
    let name = escape_where(path, |before, character| {
        let is_drive = || {
            let letter = before.last().is_some_and(u8::is_ascii_alphabetic);
            let is_first = before.len() == 1 || before.iter().rev().nth(1) == Some(&b'/');
            letter && is_first
        };
        character.is_control() || character == '\\' || (character == ':' && is_drive())
    });
    let is_changed = name.as_bytes() != path;
    (name, is_changed)
}

fn escape_where(path: &[u8], is_unwanted: impl Fn(&[u8], char) -> bool) -> String {
    let mut text = String::with_capacity(path.len());
    let escape = |text: &mut String, bytes: &[u8]| {
        for byte in bytes {
            write!(text, "%{byte:02X}").expect("writing to a string cannot fail");
        }
    };
    let mut at = 0;
    for chunk in path.utf8_chunks() {
        for (index, character) in chunk.valid().char_indices() {
            let start = at + index;
            let end = start + character.len_utf8();
            let is_hexadecimal = |byte: &u8| byte.is_ascii_hexdigit();
            let reads_as_escape = character == '%'
                && path
                    .get(end..end + 2)
                    .is_some_and(|next| next.iter().all(is_hexadecimal));
            if reads_as_escape || is_unwanted(&path[..start], character) {
                escape(&mut text, &path[start..end]);
            } else {
                text.push(character);
            }
        }
        at += chunk.valid().len();
        escape(&mut text, chunk.invalid());
        at += chunk.invalid().len();
    }
    text
}

/// Decodes a path. `None` if it is invalid or could lead out of the folder.
pub(super) fn unescape(text: &str) -> Option<Vec<u8>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    let mut path = Vec::with_capacity(text.len());
    for (index, component) in text.split('/').enumerate() {
        if index > 0 {
            path.push(b'/');
        }
        let component = unescape_component(component.as_bytes());
        if matches!(component.as_slice(), b"" | b"." | b"..")
            || component.iter().any(|byte| matches!(byte, b'/' | 0))
        {
            return None;
        }
        path.extend_from_slice(&component);
    }
    (path.len() <= MAX_PATH_BYTES).then_some(path)
}

fn unescape_component(mut text: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut bytes = Vec::with_capacity(text.len());
    while let Some((&first, rest)) = text.split_first() {
        let escaped = match rest {
            [high, low, ..] if first == b'%' => digit(*high).zip(digit(*low)),
            _ => None,
        };
        match escaped {
            Some((high, low)) => {
                let byte =
                    u8::try_from(high << 4 | low).expect("two hexadecimal digits fit into a byte");
                bytes.push(byte);
                text = &rest[2..];
            }
            None => {
                bytes.push(first);
                text = rest;
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn most_names_are_themselves_and_all_can_be_read_back() {
        for (bytes, expect) in [
            (&b"src/main.rs"[..], "src/main.rs"),
            ("größe 100%.txt".as_bytes(), "größe 100%.txt"),
            (b"a%2Fb", "a%252Fb"),
            (b"\xff\xfe", "%FF%FE"),
            (b"%\xff", "%%FF"),
            (b"%4\xff1", "%4%FF1"),
            (b"line\nbreak", "line\nbreak"),
        ] {
            assert_eq!(escape(bytes), expect);
            assert_eq!(unescape(expect).unwrap(), bytes);
        }
    }

    #[test]
    fn no_path_leads_anywhere_but_down() {
        let long = "a/".repeat(3000);
        for text in [
            "..",
            ".",
            "/",
            "/etc",
            "a/../b",
            "a//b",
            "a/",
            "./a",
            "a\0b",
            "%2E%2E",
            "a/%2e%2e/b",
            "a%2Fb",
            "a%00",
            "%2Fetc",
            &long,
        ] {
            assert_eq!(unescape(text), None, "{text:?}");
        }
        for (text, expect) in [("", ""), ("...", "..."), ("..a", "..a"), (" ", " ")] {
            assert_eq!(unescape(text).unwrap(), expect.as_bytes());
        }
    }

    #[test]
    fn names_in_zips_unpack_to_one_place_everywhere() {
        let check = |bytes: &[u8], expect: &str| {
            let (name, is_changed) = escape_for_zip(bytes);
            assert_eq!(name, expect);
            assert_eq!(is_changed, expect.as_bytes() != bytes);
        };
        check(b"src/a b.rs", "src/a b.rs");
        check(b"..\\..\\etc\\passwd", "..%5C..%5Cetc%5Cpasswd");
        check(b"C:evil", "C%3Aevil");
        check(b"a/C:evil", "a/C%3Aevil");
        check(b"time 10:30", "time 10:30");
        check(b"\x1b[31mred\r\n", "%1B[31mred%0D%0A");
        check("\u{85}".as_bytes(), "%C2%85");
        check(b"\xff", "%FF");
    }

    proptest! {
        #[test]
        fn every_name_comes_back(bytes in proptest::collection::vec(1u8.., 1..40)) {
            let bytes: Vec<u8> = bytes.into_iter().filter(|byte| *byte != b'/').collect();
            prop_assume!(!matches!(bytes.as_slice(), b"" | b"." | b".."));
            prop_assert_eq!(unescape(&escape(&bytes)).unwrap(), bytes.clone());
            let (name, _) = escape_for_zip(&bytes);
            prop_assert!(!name.contains(|c: char| c.is_control() || c == '\\'));
            prop_assert_eq!(unescape(&name).unwrap(), bytes);
        }
    }
}
