//! Decides which paths of a workspace an undo may touch. Pure.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sandbox::request::{FileKind, SurveyEntry};
use store::{FileRecord, RecordedKind};

use super::{UNLISTED_FILES, WorkspaceSnapshot, stamp};

/// Files that were not recorded, with the reason, by path.
type SkippedFiles = BTreeMap<String, String>;

type RecordsByPath<'a> = HashMap<&'a [u8], &'a FileRecord>;

/// Inputs of a restoration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RestoreTarget<'a> {
    /// The files to restore.
    pub(crate) before: &'a [FileRecord],
    /// Files that were not recorded, and stay as they are.
    pub(crate) skipped: &'a SkippedFiles,
    /// The files after a turn, and those of them that were not recorded. Without it, every file counts
    /// as changed by the turn.
    pub(crate) after: Option<(&'a [FileRecord], &'a SkippedFiles)>,
    /// The current files.
    pub(crate) now: Option<&'a WorkspaceSnapshot>,
}

/// What to do with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathAction {
    Restore,
    /// The turn did not change it.
    Pass,
    /// The turn changed it, but so did something else since; or it is too large to be recorded.
    Leave,
}

/// A target, indexed by path.
#[derive(Debug)]
pub(crate) struct RestorePlanner<'a> {
    wanted: RecordsByPath<'a>,
    skipped: &'a SkippedFiles,
    after: Option<(RecordsByPath<'a>, &'a SkippedFiles)>,
    now: RecordsByPath<'a>,
}

impl<'a> RestorePlanner<'a> {
    pub(crate) fn new(target: RestoreTarget<'a>) -> Self {
        let now = target.now.map_or(&[][..], |snapshot| &snapshot.files);
        Self {
            wanted: by_path(target.before),
            skipped: target.skipped,
            after: target
                .after
                .map(|(files, skipped)| (by_path(files), skipped)),
            now: by_path(now),
        }
    }

    pub(crate) fn wanted(&self, path: &[u8]) -> Option<&'a FileRecord> {
        self.wanted.get(path).copied()
    }

    pub(crate) fn action_for(&self, path: &[u8], present: Option<&SurveyEntry>) -> PathAction {
        self.decide(path, present.is_some(), |after| {
            present.is_some_and(|present| self.is_as_left(after, present))
        })
    }

    /// Decides about a path. `is_as_left` tells whether an existing file is as the turn left it.
    fn decide(
        &self,
        path: &[u8],
        is_present: bool,
        is_as_left: impl Fn(&FileRecord) -> bool,
    ) -> PathAction {
        let before = self.wanted(path);
        // It may have existed before the turn.
        if before.is_none() && is_unrecorded(self.skipped, path) {
            return PathAction::Pass;
        }
        let Some((after, skipped)) = &self.after else {
            return PathAction::Restore;
        };
        let after = after.get(path).copied();
        let is_same = match (before, after) {
            (Some(before), Some(after)) => before.kind == after.kind && before.mode == after.mode,
            (before, after) => before.is_none() && after.is_none(),
        };
        match (after, is_present) {
            (None, true) if is_named(skipped, path) => PathAction::Leave,
            // The turn has locked the folder.
            (None, _) if is_hidden(skipped, path) && before.is_some() => PathAction::Restore,
            (None, true) if is_hidden(skipped, path) => PathAction::Leave,
            _ if is_same => PathAction::Pass,
            (None, false) => PathAction::Restore,
            (Some(after), true) if is_as_left(after) => PathAction::Restore,
            _ => PathAction::Leave,
        }
    }

    /// Whether a file is unchanged since the turn, or was changed back.
    fn is_as_left(&self, after: &FileRecord, present: &SurveyEntry) -> bool {
        match &after.kind {
            RecordedKind::File { .. } => {
                present.kind == FileKind::File
                    && (stamp(present) == after.stamp || self.matches_record(after, present))
            }
            RecordedKind::Folder => present.kind == FileKind::Folder,
            RecordedKind::Symlink { target } => present
                .target
                .as_ref()
                .is_some_and(|found| found.0 == *target),
        }
    }

    /// Whether an existing file has the recorded content and mode.
    pub(crate) fn matches_record(&self, record: &FileRecord, present: &SurveyEntry) -> bool {
        self.now.get(present.path.0.as_slice()).is_some_and(|now| {
            now.stamp == stamp(present) && now.kind == record.kind && now.mode == record.mode
        })
    }
}

/// The files that existed after a restoration to `target` that started from `found`. Paths in `left`
/// could not be restored.
pub(crate) fn files_after_restore(
    target: RestoreTarget<'_>,
    found: &[FileRecord],
    left: &[String],
) -> Vec<FileRecord> {
    let planner = RestorePlanner::new(target);
    let found = by_path(found);
    let left: HashSet<&str> = left.iter().map(String::as_str).collect();
    let is_partial = target.skipped.contains_key(UNLISTED_FILES);
    let paths: BTreeSet<&[u8]> = found.keys().chain(planner.wanted.keys()).copied().collect();
    let files = paths.into_iter().filter_map(|path| {
        let was = found.get(path).copied();
        let wanted = planner.wanted(path);
        let is_as_left = |after: &FileRecord| {
            was.is_some_and(|was| match after.kind {
                RecordedKind::File { .. } => {
                    was.stamp == after.stamp || (was.kind == after.kind && was.mode == after.mode)
                }
                RecordedKind::Folder | RecordedKind::Symlink { .. } => was.kind == after.kind,
            })
        };
        let is_kept = left.contains(&*super::path(path).to_string_lossy())
            || (wanted.is_none() && is_partial);
        match planner.decide(path, was.is_some(), is_as_left) {
            PathAction::Restore if !is_kept => wanted,
            _ => was,
        }
    });
    files.cloned().collect()
}

/// Whether the path was skipped by a checkpoint, so that its earlier state is unknown.
pub(crate) fn is_unrecorded(skipped: &SkippedFiles, path: &[u8]) -> bool {
    is_named(skipped, path) || is_hidden(skipped, path)
}

fn is_named(skipped: &SkippedFiles, path: &[u8]) -> bool {
    !skipped.is_empty() && skipped.contains_key(&*String::from_utf8_lossy(path))
}

/// Whether a folder above it could not be read.
fn is_hidden(skipped: &SkippedFiles, path: &[u8]) -> bool {
    parent_folders(path).any(|folder| is_named(skipped, folder))
}

/// The parent folders of a path, from the top down.
pub(crate) fn parent_folders(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(|(end, _)| &path[..end])
}

fn by_path(files: &[FileRecord]) -> RecordsByPath<'_> {
    files
        .iter()
        .map(|file| (file.path.as_slice(), file))
        .collect()
}
