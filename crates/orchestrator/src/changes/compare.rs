//! Compares a workspace with its start, file by file.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::Path;

use nix::sys::stat::FileStat;
use sha2::{Digest, Sha256};
use store::{ContentHash, FileRecord, FileStamp, RecordedKind, SessionStore};

use super::describe::describe;
use super::{ChangeKind, Changes, ChangesError, is_git_internal, not_compared};
use crate::blocking::run_blocking;
use crate::tree::{self, Kind, TreeLeaf, TreeVisit, UntrustedTree};

/// Files that are scanned: as many as a checkpoint can have.
const MAX_SCANNED_FILES: u64 = 50_000;
/// Changed files that are reported.
const MAX_REPORTED_FILES: usize = 500;
/// Largest file that is compared line by line, in bytes.
pub(super) const MAX_DIFF_FILE_BYTES: u64 = 1 << 20;
/// Total bytes of all diffs.
const MAX_TOTAL_DIFF_BYTES: usize = 8 << 20;
/// A file that changed this shortly before the checkpoint may have changed again within the
/// resolution of its timestamps, so its contents are compared. In nanoseconds.
const STAMP_MARGIN_NANOS: i64 = 1_000_000_000;

/// The state of a workspace at the start of its job.
#[derive(Debug, Default)]
pub(super) struct WorkspaceStart {
    pub(super) files: BTreeMap<Vec<u8>, FileRecord>,
    /// Files that were not recorded, by path, with the reason.
    pub(super) skipped: BTreeMap<String, String>,
    /// Nanoseconds since the epoch.
    pub(super) at: i64,
}

/// A file that may have changed.
#[derive(Debug)]
pub(super) struct ChangeCandidate {
    pub(super) path: Vec<u8>,
    pub(super) change: ChangeKind,
    pub(super) before: Option<FileRecord>,
    pub(super) now: Option<CurrentFile>,
}

/// The current state of a path.
#[derive(Debug)]
pub(super) enum CurrentFile {
    File { size: u64, mode: u32 },
    Link { target: Vec<u8> },
}

pub(super) async fn compare(
    store: &SessionStore,
    start: WorkspaceStart,
    workspace: &Path,
) -> Result<Changes, ChangesError> {
    let workspace = workspace.to_path_buf();
    let skipped = start.skipped.clone();
    let found = run_blocking(move || {
        let tree = UntrustedTree::open(&workspace)?;
        let found = find_candidates(&tree, &start)?;
        Ok((tree, found))
    });
    let (mut tree, (found, mut is_truncated)) = match found.await {
        // The workspace does not exist yet.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Changes::default()),
        found => found?,
    };
    is_truncated |= found.len() > MAX_REPORTED_FILES;
    let mut files = Vec::new();
    let mut room = MAX_TOTAL_DIFF_BYTES;
    for candidate in found.into_iter().take(MAX_REPORTED_FILES) {
        let old = match &candidate.before {
            Some(FileRecord {
                kind: RecordedKind::File { size, content },
                ..
            }) if *size <= MAX_DIFF_FILE_BYTES => store.content(content).await?,
            _ => None,
        };
        let (back, change) = run_blocking(move || {
            let change = describe(&tree, candidate, old, room);
            Ok((tree, change))
        })
        .await?;
        tree = back;
        room -= change.diff.as_ref().map_or(0, String::len);
        files.push(change);
    }
    Ok(Changes {
        files,
        is_truncated,
        not_compared: not_compared(skipped),
    })
}

/// All changed files by path, and whether the scan was cut short.
fn find_candidates(
    tree: &UntrustedTree,
    start: &WorkspaceStart,
) -> io::Result<(Vec<ChangeCandidate>, bool)> {
    let mut found = Vec::new();
    let mut seen = BTreeSet::new();
    let mut closed: Vec<Vec<u8>> = Vec::new();
    let walked = tree.walk(MAX_SCANNED_FILES, |visit| {
        match visit {
            TreeVisit::Leaf(leaf) if !is_git_internal(leaf.path) => {
                if start.files.contains_key(leaf.path) {
                    seen.insert(leaf.path.to_vec());
                }
                found.extend(candidate(&leaf, start));
            }
            TreeVisit::Closed { path, .. } => closed.push(path.to_vec()),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    // Files that were not scanned must not be reported as removed.
    let is_hidden = |path: &[u8]| {
        let below =
            |folder: &Vec<u8>| path.starts_with(folder) && path.get(folder.len()) == Some(&b'/');
        walked.is_cut || closed.iter().any(below)
    };
    for (path, record) in &start.files {
        let is_folder = matches!(record.kind, RecordedKind::Folder);
        if !is_folder && !seen.contains(path) && !is_hidden(path) {
            found.push(ChangeCandidate {
                path: path.clone(),
                change: ChangeKind::Removed,
                before: Some(record.clone()),
                now: None,
            });
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    Ok((found, walked.is_cut))
}

fn candidate(leaf: &TreeLeaf<'_>, start: &WorkspaceStart) -> Option<ChangeCandidate> {
    let before = start.files.get(leaf.path);
    if before.is_none()
        && start
            .skipped
            .contains_key(&*String::from_utf8_lossy(leaf.path))
    {
        return None;
    }
    let now = match leaf.kind() {
        Kind::File => CurrentFile::File {
            size: tree::size(leaf.stat),
            mode: leaf.stat.st_mode & 0o777,
        },
        Kind::Link => CurrentFile::Link {
            target: leaf.target().ok()?,
        },
        Kind::Folder | Kind::Other => return None,
    };
    let is_same = match (before, &now) {
        (None, _) => false,
        (Some(record), CurrentFile::Link { target }) => {
            matches!(&record.kind, RecordedKind::Symlink { target: was } if was == target)
        }
        (Some(record), CurrentFile::File { size, mode }) => match &record.kind {
            RecordedKind::File { size: was, content } => {
                was == size
                    && record.mode & 0o777 == *mode
                    && (is_untouched(leaf.stat, record, start.at) || has_content(leaf, content))
            }
            _ => false,
        },
    };
    (!is_same).then(|| ChangeCandidate {
        path: leaf.path.to_vec(),
        change: match before {
            Some(_) => ChangeKind::Changed,
            None => ChangeKind::Added,
        },
        before: before.cloned(),
        now: Some(now),
    })
}

/// Whether the file was certainly not written since the checkpoint.
fn is_untouched(stat: &FileStat, record: &FileRecord, at: i64) -> bool {
    let nanoseconds = |seconds: i64, rest: i64| seconds.saturating_mul(1_000_000_000) + rest;
    let stamp = FileStamp {
        inode: stat.st_ino,
        modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
        changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
    };
    stamp == record.stamp
        && stamp.changed.max(stamp.modified) < at.saturating_sub(STAMP_MARGIN_NANOS)
}

fn has_content(leaf: &TreeLeaf<'_>, content: &ContentHash) -> bool {
    let hash = || -> io::Result<ContentHash> {
        let (file, stat) = leaf.open()?;
        let mut reader = file.take(tree::size(&stat));
        let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 << 10]);
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(ContentHash(hash.finalize().into())),
                length => hash.update(&buffer[..length]),
            }
        }
    };
    hash().is_ok_and(|hash| hash == *content)
}
