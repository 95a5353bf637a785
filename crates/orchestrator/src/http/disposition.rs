//! The name under which a browser saves a download.

use std::fmt::Write;

use axum::http::HeaderValue;

/// `Content-Disposition` of RFC 6266: an ASCII name for old clients, and the full name. Any name
/// results in exactly one valid header.
pub(crate) fn attachment(name: &str) -> HeaderValue {
    let plain: String = name
        .chars()
        .map(|letter| match letter {
            '"' | '\\' | '/' | '%' => '_',
            ' '..='~' => letter,
            _ => '_',
        })
        .collect();
    let mut value = format!("attachment; filename=\"{plain}\"; filename*=UTF-8''");
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => {
                value.push(char::from(byte));
            }
            _ => write!(value, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    HeaderValue::try_from(value).expect("only visible ASCII is left")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn any_name_makes_one_header() {
        for (name, expect) in [
            (
                "a.txt",
                "attachment; filename=\"a.txt\"; filename*=UTF-8''a.txt",
            ),
            ("", "attachment; filename=\"\"; filename*=UTF-8''"),
            (
                "é\r\nSet-Cookie: x",
                "attachment; filename=\"___Set-Cookie: x\"; filename*=UTF-8''%C3%A9%0D%0ASet-Cookie%3A%20x",
            ),
            (
                "a\"; b",
                "attachment; filename=\"a_; b\"; filename*=UTF-8''a%22%3B%20b",
            ),
        ] {
            assert_eq!(attachment(name).to_str().unwrap(), expect);
        }
    }
}
