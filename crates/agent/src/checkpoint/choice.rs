//! Which paths of a workspace an undo may touch. Pure.

use std::collections::{BTreeMap, HashMap};

use sandbox::request::{FileKind, Surveyed};
use store::{FileRecord, RecordedKind};

use super::{Taken, stamp};

/// Files that are not on record, by path with the reason.
type Skipped = BTreeMap<String, String>;

type ByPath<'a> = HashMap<&'a [u8], &'a FileRecord>;

/// What a restoration goes by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Target<'a> {
    /// What the workspace is to be.
    pub(crate) before: &'a [FileRecord],
    /// Files that are not on record, and stay as they are.
    pub(crate) skipped: &'a Skipped,
    /// What a turn left behind, and what of that is not on record. Without it, all files are
    /// the turn's.
    pub(crate) after: Option<(&'a [FileRecord], &'a Skipped)>,
    /// What the workspace is.
    pub(crate) now: Option<&'a Taken>,
}

/// What to do with one path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    Restore,
    /// Not the turn's.
    Pass,
    /// The turn's, and somebody else's since; or too large to be on record.
    Leave,
}

/// A target, by path.
#[derive(Debug)]
pub(crate) struct Chooser<'a> {
    wanted: ByPath<'a>,
    skipped: &'a Skipped,
    after: Option<(ByPath<'a>, &'a Skipped)>,
    now: ByPath<'a>,
}

impl<'a> Chooser<'a> {
    pub(crate) fn new(target: Target<'a>) -> Self {
        let now = target.now.map_or(&[][..], |taken| &taken.files);
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

    pub(crate) fn choose(&self, path: &[u8], present: Option<&Surveyed>) -> Choice {
        let before = self.wanted(path);
        // It may have been there all along.
        if before.is_none() && (is_named(self.skipped, path) || is_hidden(self.skipped, path)) {
            return Choice::Pass;
        }
        let Some((after, skipped)) = &self.after else {
            return Choice::Restore;
        };
        let after = after.get(path).copied();
        let is_same = match (before, after) {
            (Some(before), Some(after)) => before.kind == after.kind && before.mode == after.mode,
            (before, after) => before.is_none() && after.is_none(),
        };
        match (after, present) {
            (None, Some(_)) if is_named(skipped, path) => Choice::Leave,
            // The turn has locked the folder.
            (None, _) if is_hidden(skipped, path) && before.is_some() => Choice::Restore,
            (None, Some(_)) if is_hidden(skipped, path) => Choice::Leave,
            _ if is_same => Choice::Pass,
            (None, None) => Choice::Restore,
            (Some(after), Some(present)) if self.is_as_left(after, present) => Choice::Restore,
            _ => Choice::Leave,
        }
    }

    /// Whether nobody has touched a file since, or whoever did has put it back.
    fn is_as_left(&self, after: &FileRecord, present: &Surveyed) -> bool {
        match &after.kind {
            RecordedKind::File { .. } => {
                present.kind == FileKind::File
                    && (stamp(present) == after.stamp || self.is_like(after, present))
            }
            RecordedKind::Folder => present.kind == FileKind::Folder,
            RecordedKind::Symlink { target } => present
                .target
                .as_ref()
                .is_some_and(|found| found.0 == *target),
        }
    }

    /// Whether a file that is there has the content and the mode on record.
    pub(crate) fn is_like(&self, record: &FileRecord, present: &Surveyed) -> bool {
        self.now.get(present.path.0.as_slice()).is_some_and(|now| {
            now.stamp == stamp(present) && now.kind == record.kind && now.mode == record.mode
        })
    }
}

fn is_named(skipped: &Skipped, path: &[u8]) -> bool {
    !skipped.is_empty() && skipped.contains_key(&*String::from_utf8_lossy(path))
}

/// Whether a folder above it could not be looked into.
fn is_hidden(skipped: &Skipped, path: &[u8]) -> bool {
    folders_above(path).any(|folder| is_named(skipped, folder))
}

/// The folders that a path goes through, from the top down.
pub(crate) fn folders_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let ends = path.iter().enumerate().filter(|(_, byte)| **byte == b'/');
    ends.map(|(end, _)| &path[..end])
}

fn by_path(files: &[FileRecord]) -> ByPath<'_> {
    files
        .iter()
        .map(|file| (file.path.as_slice(), file))
        .collect()
}
