//! Describes the change of one file.

use std::fs::File;
use std::io::{self, Read};

use store::{FileRecord, RecordedKind};

use super::FileChange;
use super::compare::{Candidate, LARGEST_FILE, Now};
use super::text::{Difference, difference};
use crate::tree::{self, Tree};

/// Describes one change, with a diff if the file is text and the diff fits into the remaining
/// bytes.
pub(super) fn describe(
    tree: &Tree,
    candidate: Candidate,
    old: Option<Vec<u8>>,
    room: usize,
) -> FileChange {
    let path = tree::escape(&candidate.path);
    let mut change = FileChange {
        path,
        change: candidate.change,
        added: 0,
        removed: 0,
        diff: None,
        note: None,
    };
    let is_large = |size: u64| size > LARGEST_FILE;
    let old = match &candidate.before {
        None => Some(Vec::new()),
        Some(FileRecord {
            kind: RecordedKind::File { size, .. },
            mode,
            ..
        }) => {
            if is_large(*size) {
                change.note = Some("it was too large to compare".to_owned());
                return change;
            }
            if let Some(Now::File { mode: now, .. }) = &candidate.now
                && *now != mode & 0o777
            {
                change.note = Some(format!("its mode was {:o} and is {now:o}", mode & 0o777));
            }
            old
        }
        Some(_) => {
            change.note = Some("it was a link".to_owned());
            Some(Vec::new())
        }
    };
    let new = match &candidate.now {
        None => Ok(Vec::new()),
        Some(Now::Link { target }) => {
            change.note = Some(format!("it is a link to `{}`", tree::shown(target)));
            return change;
        }
        Some(Now::File { size, .. }) if is_large(*size) => {
            change.note = Some("it is too large to compare".to_owned());
            return change;
        }
        Some(Now::File { .. }) => read(tree, &change.path),
    };
    let (Some(old), Ok(new)) = (old, new) else {
        change.note = Some("it cannot be read".to_owned());
        return change;
    };
    match difference(&old, &new) {
        Difference::Binary => change.note = Some("it is not text".to_owned()),
        Difference::Text { diff, .. } if diff.len() > room => {
            change.note = Some("the diffs of other files leave no room".to_owned());
        }
        Difference::Text {
            added,
            removed,
            diff,
        } => {
            (change.added, change.removed) = (added, removed);
            change.diff = Some(diff).filter(|diff| !diff.is_empty());
        }
    }
    change
}

fn read(tree: &Tree, path: &str) -> io::Result<Vec<u8>> {
    let (file, _): (File, u64) = tree.open_file(path).map_err(io::Error::other)?;
    let mut content = Vec::new();
    file.take(LARGEST_FILE).read_to_end(&mut content)?;
    Ok(content)
}
