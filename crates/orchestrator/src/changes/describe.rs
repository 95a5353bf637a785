//! Describes the change of one file.

use std::fs::File;
use std::io::{self, Read};

use store::{FileRecord, RecordedKind};

use super::FileChange;
use super::compare::{ChangeCandidate, CurrentFile, MAX_DIFF_FILE_BYTES};
use super::text::{ContentDiff, diff_contents};
use crate::tree::{self, UntrustedTree};

/// Describes one change, with a diff if the file is text and the diff fits into the remaining
/// bytes.
pub(super) fn describe(
    tree: &UntrustedTree,
    candidate: ChangeCandidate,
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
    let is_large = |size: u64| size > MAX_DIFF_FILE_BYTES;
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
            if let Some(CurrentFile::File { mode: now, .. }) = &candidate.now
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
        Some(CurrentFile::Link { target }) => {
            change.note = Some(format!("it is a link to `{}`", tree::shown(target)));
            return change;
        }
        Some(CurrentFile::File { size, .. }) if is_large(*size) => {
            change.note = Some("it is too large to compare".to_owned());
            return change;
        }
        Some(CurrentFile::File { .. }) => read(tree, &change.path),
    };
    let (Some(old), Ok(new)) = (old, new) else {
        change.note = Some("it cannot be read".to_owned());
        return change;
    };
    match diff_contents(&old, &new) {
        ContentDiff::Binary => change.note = Some("it is not text".to_owned()),
        ContentDiff::Text { diff, .. } if diff.len() > room => {
            change.note = Some("the diffs of other files leave no room".to_owned());
        }
        ContentDiff::Text {
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

fn read(tree: &UntrustedTree, path: &str) -> io::Result<Vec<u8>> {
    let (file, _): (File, u64) = tree.open_file(path).map_err(io::Error::other)?;
    let mut content = Vec::new();
    file.take(MAX_DIFF_FILE_BYTES).read_to_end(&mut content)?;
    Ok(content)
}
