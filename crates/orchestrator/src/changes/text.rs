//! The diff of two file contents. Pure.

use std::time::Duration;

use similar::{ChangeTag, TextDiff};

/// Time limit of the diff algorithm; after it the diff is correct but not minimal.
const DIFF_TIMEOUT: Duration = Duration::from_millis(500);

/// The result of comparing two contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ContentDiff {
    Text {
        added: u64,
        removed: u64,
        diff: String,
    },
    /// At least one of them is not text.
    Binary,
}

/// Compares two contents. A missing file counts as empty.
pub(super) fn diff_contents(old: &[u8], new: &[u8]) -> ContentDiff {
    let (Some(old), Some(new)) = (text(old), text(new)) else {
        return ContentDiff::Binary;
    };
    let lines = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_lines(old, new);
    let count = |tag| {
        lines
            .iter_all_changes()
            .filter(|one| one.tag() == tag)
            .count() as u64
    };
    ContentDiff::Text {
        added: count(ChangeTag::Insert),
        removed: count(ChangeTag::Delete),
        diff: lines.unified_diff().context_radius(3).to_string(),
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    if bytes.contains(&0) {
        None
    } else {
        std::str::from_utf8(bytes).ok()
    }
}
