//! Unified diffs of two texts, of bounded size.

use std::time::Duration;

use similar::TextDiff;

use crate::content::{Content, START, content_of};

/// Maximum size of a diff for the user. Longer ones are cut.
pub(crate) const FOR_PEOPLE: usize = 32 * 1024;

/// Maximum size of a diff for the model, which knows what it wrote.
pub(crate) const FOR_THE_MODEL: usize = 4 * 1024;

/// Longer texts are not compared.
pub(crate) const LONGEST: usize = 2 * 1024 * 1024;

/// Time limit. The best diff found until then is used.
const TIME: Duration = Duration::from_millis(500);

/// Longer lines of a diff are cut.
const LONGEST_LINE: usize = 500;

/// The diff of a file for the user; `None` if nothing changed or the content is not text.
pub fn difference(old: &[u8], new: &[u8]) -> Option<String> {
    let is_text = |bytes: &[u8]| {
        let start = &bytes[..bytes.len().min(START)];
        bytes.is_empty() || content_of(start) == Content::Text
    };
    if !is_text(old) || !is_text(new) {
        return None;
    }
    let (old, new) = (
        std::str::from_utf8(old).ok()?,
        std::str::from_utf8(new).ok()?,
    );
    unified(old, new, FOR_PEOPLE)
}

/// The diff of two texts; `None` if they are equal or too long.
pub(crate) fn unified(old: &str, new: &str, most: usize) -> Option<String> {
    if old == new || old.len().max(new.len()) > LONGEST {
        return None;
    }
    let diff = TextDiff::configure().timeout(TIME).diff_lines(old, new);
    let mut text = String::new();
    for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
        for line in hunk.to_string().lines() {
            if text.len() + line.len().min(LONGEST_LINE) > most {
                text.push_str("… more changes follow\n");
                return Some(text);
            }
            let end = line.floor_char_boundary(LONGEST_LINE);
            text.push_str(&line[..end]);
            text.push_str(if end < line.len() { "…\n" } else { "\n" });
        }
    }
    Some(text)
}
