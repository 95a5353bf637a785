//! Parses the `Range` header (RFC 9110 section 14). Pure.
//!
//! A single byte range is supported. For several ranges, other units, ranges beyond the end and
//! malformed headers, the whole file is sent, as the RFC allows.

use axum::http::{HeaderMap, HeaderValue, header};

/// A range of bytes; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteRange {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

impl ByteRange {
    pub(crate) fn length(self) -> u64 {
        self.last - self.first + 1
    }

    /// The `Content-Range` of this part of a file of `total` bytes.
    pub(crate) fn header(self, total: u64) -> HeaderValue {
        let text = format!("bytes {}-{}/{total}", self.first, self.last);
        HeaderValue::try_from(text).expect("digits are ASCII")
    }
}

/// The requested part of a file of `total` bytes with that tag; `None` for all of it.
pub(crate) fn requested_range(
    headers: &HeaderMap,
    tag: &HeaderValue,
    total: u64,
) -> Option<ByteRange> {
    let condition = headers.get(header::IF_RANGE);
    if condition.is_some_and(|condition| condition != tag) {
        return None;
    }
    let range = headers.get(header::RANGE)?.to_str().ok()?;
    parse_range(range, total)
}

fn parse_range(text: &str, total: u64) -> Option<ByteRange> {
    let (first, last) = text.trim().strip_prefix("bytes=")?.split_once('-')?;
    let (first, last) = match (first.trim(), last.trim()) {
        ("", suffix) => (total.saturating_sub(parse_digits(suffix)?), u64::MAX),
        (first, "") => (parse_digits(first)?, u64::MAX),
        (first, last) => (parse_digits(first)?, parse_digits(last)?),
    };
    let last = last.min(total.checked_sub(1)?);
    (first <= last).then_some(ByteRange { first, last })
}

/// Only digits: `u64::from_str` also accepts a sign.
fn parse_digits(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    is_plain.then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(first: u64, last: u64) -> Option<ByteRange> {
        Some(ByteRange { first, last })
    }

    #[test]
    fn a_range_is_cut_to_the_file() {
        for (text, expect) in [
            ("bytes=0-0", part(0, 0)),
            ("bytes=2-4", part(2, 4)),
            ("bytes=2-", part(2, 9)),
            ("bytes=2-400", part(2, 9)),
            ("bytes=-3", part(7, 9)),
            ("bytes=-300", part(0, 9)),
            ("bytes=10-", None),
            ("bytes=-0", None),
            ("bytes=4-2", None),
            ("bytes=0-1,3-4", None),
            ("bytes=+1-4", None),
            ("bytes=-", None),
            ("bytes=99999999999999999999-", None),
            ("lines=0-1", None),
            ("", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::RANGE, HeaderValue::from_static(text));
            let tag = HeaderValue::from_static("\"a\"");
            assert_eq!(requested_range(&headers, &tag, 10), expect, "{text}");
            assert_eq!(
                requested_range(&headers, &tag, 0),
                None,
                "{text} of nothing"
            );
            headers.insert(header::IF_RANGE, HeaderValue::from_static("\"b\""));
            assert_eq!(requested_range(&headers, &tag, 10), None, "{text}");
        }
    }
}
