//! Classifies a paste: text to sanitise, a block to show as one unit, or paths of images. Pure:
//! reads no file.

use std::path::{Path, PathBuf};

use super::embed::is_embed_char;
use crate::text::clean;

/// A paste beyond these limits is shown as one unit.
const MAX_INLINE_LINES: usize = 5;
const MAX_INLINE_CHARS: usize = 500;

const IMAGE_EXTENSIONS: [&str; 5] = ["png", "jpg", "jpeg", "gif", "webp"];

/// Sanitises a paste: no control characters, `\n` as line end.
pub(super) fn sanitize(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    clean(&text).replace(is_embed_char, "\u{fffd}")
}

/// Whether a paste is too long to be shown in full.
pub(super) fn is_long(text: &str) -> bool {
    text.len() > MAX_INLINE_CHARS && text.chars().nth(MAX_INLINE_CHARS).is_some()
        || lines(text) > MAX_INLINE_LINES
}

/// Number of lines. A final line end does not start another line.
pub(super) fn lines(text: &str) -> usize {
    text.strip_suffix('\n').unwrap_or(text).split('\n').count()
}

/// Whether the extension is that of an image format which models accept.
pub(crate) fn is_picture(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    IMAGE_EXTENSIONS
        .iter()
        .any(|known| extension.eq_ignore_ascii_case(known))
}

/// The pasted images, if the text consists of image paths only, as terminals write files that are
/// dropped on them. Each with its part of the text.
pub(super) fn pasted_images(text: &str) -> Option<Vec<(String, PathBuf)>> {
    let text = text.trim();
    if text.is_empty() || text.contains('\n') {
        return None;
    }
    let words = words(text)?.into_iter();
    let paths = words.map(|(written, word)| Some((written, image_path(&word)?)));
    // A path with unescaped spaces.
    let whole = || {
        let is_rooted = text.starts_with('/') || text.starts_with("~/");
        let path = image_path(text).filter(|_| is_rooted)?;
        Some(vec![(text.to_owned(), path)])
    };
    paths.collect::<Option<Vec<_>>>().or_else(whole)
}

fn image_path(word: &str) -> Option<PathBuf> {
    let path = match word.strip_prefix("file://") {
        Some(address) => percent_decode(address.strip_prefix("localhost").unwrap_or(address))?,
        None if word.contains("://") => return None,
        None => word.to_owned(),
    };
    let path = PathBuf::from(path);
    let is_path = path.components().count() > 1;
    (is_path && is_picture(&path)).then_some(path)
}

/// Splits a text into shell words: each as written and unquoted.
fn words(text: &str) -> Option<Vec<(String, String)>> {
    let mut words = Vec::new();
    let (mut written, mut unquoted) = (String::new(), String::new());
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if quote.is_none() && character.is_whitespace() {
            if !written.is_empty() {
                words.push((std::mem::take(&mut written), std::mem::take(&mut unquoted)));
            }
            continue;
        }
        written.push(character);
        match (quote, character) {
            (Some(open), _) if character == open => quote = None,
            (None, '\'' | '"') => quote = Some(character),
            (None | Some('"'), '\\') => {
                let escaped = characters.next()?;
                written.push(escaped);
                unquoted.push(escaped);
            }
            _ => unquoted.push(character),
        }
    }
    if !written.is_empty() {
        words.push((written, unquoted));
    }
    quote.is_none().then_some(words)
}

/// Decodes percent escapes such as `%20`.
fn percent_decode(address: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(address.len());
    let mut rest = address.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn image_paths_are_recognised() {
        fn check(text: &str, expect: &[&str]) {
            let found = pasted_images(text).unwrap_or_default();
            let found: Vec<_> = found
                .iter()
                .map(|(_, path)| path.to_str().unwrap())
                .collect();
            assert_eq!(found, expect, "{text}");
        }
        check("/tmp/a.png", &["/tmp/a.png"]);
        check(" /tmp/a.PNG \n", &["/tmp/a.PNG"]);
        check("'/tmp/my shot.jpeg'", &["/tmp/my shot.jpeg"]);
        check("\"/tmp/my shot.jpg\"", &["/tmp/my shot.jpg"]);
        check(r"/tmp/my\ shot.gif", &["/tmp/my shot.gif"]);
        check("/tmp/my shot.webp", &["/tmp/my shot.webp"]);
        check("file:///tmp/my%20shot.png", &["/tmp/my shot.png"]);
        check("file://localhost/tmp/%C3%A4.png", &["/tmp/ä.png"]);
        check("./a.png ../b.png", &["./a.png", "../b.png"]);
        check("~/a.png", &["~/a.png"]);
        check("a.png", &[]);
        check("/tmp/a.rs", &[]);
        check("see /tmp/a.png", &[]);
        check("https://example.com/a.png", &[]);
        check("file:///tmp/%zz.png", &[]);
        check("file:///tmp/a.png%2", &[]);
        check("/tmp/a.png\n/tmp/b.png", &[]);
        check("'/tmp/a.png", &[]);
        check("", &[]);
    }

    #[test]
    fn pastes_lose_only_control_characters() {
        fn check(text: &str, expect: &str) {
            assert_eq!(sanitize(text), expect, "{text:?}");
        }
        check("one\r\ntwo\rthree\n", "one\ntwo\nthree\n");
        check("tab\there", "tab\there");
        check("bell\u{7}", "bell");
        check("mark\u{10f000}", "mark\u{fffd}");
        check("icon\u{f0001}\u{e0b0}", "icon\u{f0001}\u{e0b0}");
    }

    #[test]
    fn long_pastes_exceed_five_lines_or_five_hundred_characters() {
        fn check(text: &str, expect: bool) {
            assert_eq!(is_long(text), expect, "{} bytes", text.len());
        }
        check(&"x\n".repeat(5), false);
        check(&"x\n".repeat(6), true);
        check(&"ä".repeat(500), false);
        check(&"ä".repeat(501), true);
    }
}
