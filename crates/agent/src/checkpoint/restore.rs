//! Makes a workspace what it was at a checkpoint, through the guest.
//!
//! Where it is known what a turn left behind, only what the turn changed is put back; what
//! somebody else has changed since is left as it is.

use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sandbox::request::{FileKind, Surveyed, WriteMode};
use sandbox::{Sandbox, SandboxError};
use store::{FileRecord, RecordedKind, Store};
use tracing::warn;

use super::{MOST_FILES, THE_REST, path, stamp};
use crate::error::AgentError;

/// What a restoration did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    pub(crate) written: u64,
    pub(crate) removed: u64,
    /// Paths that somebody else has changed since.
    pub(crate) left: Vec<String>,
}

/// What to do with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Restore,
    /// Not the turn's.
    Pass,
    /// The turn's, and somebody else's since.
    Leave,
}

/// Makes the workspace what `before` says, as far as `after` says that it was changed; all of it
/// if there is no `after`. `skipped` are the files that are not on record, and stay as they are.
pub(crate) async fn restore(
    sandbox: &Sandbox,
    store: &Store,
    before: &[FileRecord],
    after: Option<&[FileRecord]>,
    skipped: &BTreeMap<String, String>,
) -> Result<Restored, AgentError> {
    let (found, is_cut) = sandbox.survey("", MOST_FILES).await?.collect().await?;
    let mut restored = Restored::default();
    let wanted = by_path(before);
    let after = after.map(by_path);
    let choose = |path: &[u8], present: Option<&Surveyed>| match &after {
        Some(after) => choice(wanted.get(path).copied(), after.get(path).copied(), present),
        None => Choice::Restore,
    };
    let mut present = HashMap::new();
    // What stands deepest comes last in a survey, and is removed first.
    for entry in found.into_iter().rev() {
        let is_unknown = is_cut
            || skipped.contains_key(THE_REST)
            || skipped.contains_key(&entry.path.to_string());
        let is_folder = entry.kind == FileKind::Folder;
        let choice = choose(&entry.path.0, Some(&entry));
        match wanted.get(entry.path.0.as_slice()) {
            Some(file) if is_folder == (file.kind == RecordedKind::Folder) => {}
            None if is_unknown => continue,
            _ if choice != Choice::Restore => {}
            // A folder may still hold what is kept.
            _ => match sandbox.remove(path(&entry.path.0), false).await {
                Ok(()) => {
                    restored.removed += u64::from(!is_folder);
                    continue;
                }
                Err(SandboxError::Refused(_)) => {}
                Err(error) => return Err(error.into()),
            },
        }
        if choice == Choice::Leave {
            restored.left.push(entry.path.to_string());
        }
        present.insert(entry.path.0.clone(), entry);
    }
    for file in before {
        let present = present.get(&file.path);
        match choose(&file.path, present) {
            Choice::Restore => {
                restored.written += u64::from(put_back(sandbox, store, file, present).await?);
            }
            Choice::Leave if present.is_none() => {
                restored.left.push(path(&file.path).display().to_string());
            }
            Choice::Leave | Choice::Pass => {}
        }
    }
    restored.left.sort();
    Ok(restored)
}

fn by_path(files: &[FileRecord]) -> HashMap<&[u8], &FileRecord> {
    files
        .iter()
        .map(|file| (file.path.as_slice(), file))
        .collect()
}

/// Whether a path is the turn's to restore.
fn choice(
    before: Option<&FileRecord>,
    after: Option<&FileRecord>,
    present: Option<&Surveyed>,
) -> Choice {
    let is_same = match (before, after) {
        (Some(before), Some(after)) => before.kind == after.kind && before.mode == after.mode,
        (before, after) => before.is_none() && after.is_none(),
    };
    if is_same {
        return Choice::Pass;
    }
    match (after, present) {
        (None, None) => Choice::Restore,
        (Some(after), Some(present)) if is_as_left(after, present) => Choice::Restore,
        _ => Choice::Leave,
    }
}

/// Whether nobody has touched a file since.
fn is_as_left(after: &FileRecord, present: &Surveyed) -> bool {
    match &after.kind {
        RecordedKind::File { .. } => {
            present.kind == FileKind::File && stamp(present) == after.stamp
        }
        RecordedKind::Folder => present.kind == FileKind::Folder,
        RecordedKind::Symlink { target } => present
            .target
            .as_ref()
            .is_some_and(|found| found.0 == *target),
    }
}

/// Makes one file what it was. Says whether anything had to be written.
async fn put_back(
    sandbox: &Sandbox,
    store: &Store,
    file: &FileRecord,
    present: Option<&Surveyed>,
) -> Result<bool, AgentError> {
    let path = path(&file.path);
    let mode = file.mode & 0o777;
    let is_same_mode = present.is_some_and(|entry| entry.mode & 0o777 == mode);
    match &file.kind {
        RecordedKind::Folder => {
            if present.is_none() {
                sandbox.make_folder(path).await?;
            }
            if !is_same_mode {
                sandbox.set_mode(path, mode).await?;
            }
            Ok(false)
        }
        RecordedKind::Symlink { target } => {
            let is_same = present.is_some_and(|entry| {
                entry
                    .target
                    .as_ref()
                    .is_some_and(|found| found.0 == *target)
            });
            if !is_same {
                sandbox.make_link(path, OsStr::from_bytes(target)).await?;
            }
            Ok(!is_same)
        }
        RecordedKind::File { content, .. } => {
            if present.is_some_and(|entry| stamp(entry) == file.stamp) {
                return Ok(false);
            }
            let Some(content) = store.content(content).await? else {
                warn!(path = %path.display(), "the content of a file is gone");
                return Ok(false);
            };
            // A link would be written through.
            if present.is_some_and(|entry| entry.kind != FileKind::File) {
                sandbox.remove(path, false).await?;
            }
            sandbox
                .write_file_with(path, content, WriteMode::Replace, Some(mode))
                .await?;
            Ok(true)
        }
    }
}
