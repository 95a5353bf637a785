//! Unified diffs of two texts, of bounded size.

use std::time::Duration;

use similar::TextDiff;

use crate::content::{FileContent, SNIFF_BYTES, content_of};

/// Maximum size of a diff for the user. Longer ones are cut.
pub(crate) const MAX_USER_DIFF_BYTES: usize = 32 * 1024;

/// Maximum size of a diff for the model, which knows what it wrote.
pub(crate) const MAX_MODEL_DIFF_BYTES: usize = 4 * 1024;

/// Longer texts are not compared.
pub(crate) const MAX_COMPARED_BYTES: usize = 2 * 1024 * 1024;

/// Time limit. The best diff found until then is used.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// Longer lines of a diff are cut.
const MAX_LINE_BYTES: usize = 500;

/// The diff of a file for the user; `None` if nothing changed or the content is not text.
pub fn file_diff(old: &[u8], new: &[u8]) -> Option<String> {
    let is_text = |bytes: &[u8]| {
        let start = &bytes[..bytes.len().min(SNIFF_BYTES)];
        bytes.is_empty() || content_of(start) == FileContent::Text
    };
    if !is_text(old) || !is_text(new) {
        return None;
    }
    let (old, new) = (
        std::str::from_utf8(old).ok()?,
        std::str::from_utf8(new).ok()?,
    );
    unified(old, new, MAX_USER_DIFF_BYTES)
}

/// Lines that a diff adds and removes, such as `+3 −1`; empty without a diff.
pub(crate) fn count_changes(diff: Option<&str>) -> String {
    let Some(diff) = diff else {
        return String::new();
    };
    let count = |sign| diff.lines().filter(|line| line.starts_with(sign)).count();
    format!("+{} −{}", count('+'), count('-'))
}

/// The diff of two texts; `None` if they are equal or too long.
pub(crate) fn unified(old: &str, new: &str, most: usize) -> Option<String> {
    if old == new || old.len().max(new.len()) > MAX_COMPARED_BYTES {
        return None;
    }
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(old, new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        for line in hunk.to_string().lines() {
            if text.len() + line.len().min(MAX_LINE_BYTES) > most {
                text.push_str("… more changes follow\n");
                return Some(text);
            }
            let end = line.floor_char_boundary(MAX_LINE_BYTES);
            text.push_str(&line[..end]);
            text.push_str(if end < line.len() { "…\n" } else { "\n" });
        }
    }
    Some(text)
}
