//! Restores a workspace to a checkpoint, through the guest.
//!
//! If the files after a turn are recorded, only what the turn changed is restored. Paths that were
//! changed again since, or that cannot be restored, are left as they are. Never writes through a
//! link.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sandbox::request::{FileKind, SurveyEntry, WriteMode};
use sandbox::{Sandbox, SandboxError};
use store::{FileRecord, RecordedKind, SessionStore};
use tracing::warn;

use super::planner::{PathAction, RestorePlanner, RestoreTarget, parent_folders};
use super::{MAX_CHECKPOINT_FILES, UNLISTED_FILES, path, stamp};
use crate::error::AgentError;

/// Result of a restoration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RestoreResult {
    pub(crate) written: u64,
    pub(crate) removed: u64,
    /// Paths that the turn changed and that were not restored.
    pub(crate) left: Vec<String>,
}

/// Restores what the turn changed.
pub(crate) async fn restore(
    sandbox: &Sandbox,
    store: &SessionStore,
    target: RestoreTarget<'_>,
) -> Result<RestoreResult, AgentError> {
    let mut restoration = Restoration {
        sandbox,
        store,
        planner: RestorePlanner::new(target),
        is_partial: target.skipped.contains_key(UNLISTED_FILES),
        order: Vec::new(),
        actions: HashMap::new(),
        present: HashMap::new(),
        unlocked: Vec::new(),
        restored: RestoreResult::default(),
    };
    // Everything is decided before the first change.
    restoration.survey_workspace(target.before).await?;
    if restoration.unlock().await? {
        restoration.survey_workspace(target.before).await?;
    }
    restoration.remove().await?;
    restoration.restore_files(target.before).await?;
    let mut restored = restoration.restored;
    restored.left.sort();
    Ok(restored)
}

struct Restoration<'a> {
    sandbox: &'a Sandbox,
    store: &'a SessionStore,
    planner: RestorePlanner<'a>,
    /// Not all files were surveyed, then or now: a file that is not recorded may have existed.
    is_partial: bool,
    /// Paths in survey order: parents before their children.
    order: Vec<Vec<u8>>,
    actions: HashMap<Vec<u8>, PathAction>,
    /// What exists now.
    present: HashMap<Vec<u8>, SurveyEntry>,
    /// Folders that were unlocked, with their original mode.
    unlocked: Vec<(Vec<u8>, u32)>,
    restored: RestoreResult,
}

impl Restoration<'_> {
    /// Surveys the workspace, and decides about paths not seen before.
    async fn survey_workspace(&mut self, before: &[FileRecord]) -> Result<(), AgentError> {
        let survey = self.sandbox.survey("", MAX_CHECKPOINT_FILES).await?;
        let (found, is_cut) = survey.collect().await?;
        self.is_partial |= is_cut;
        self.order = found.iter().map(|entry| entry.path.0.clone()).collect();
        let present = found.into_iter().map(|entry| (entry.path.0.clone(), entry));
        self.present = present.collect();
        let wanted = before.iter().map(|file| &file.path);
        for path in self.order.iter().chain(wanted) {
            if !self.actions.contains_key(path) {
                let action = self.planner.action_for(path, self.present.get(path));
                self.actions.insert(path.clone(), action);
            }
        }
        Ok(())
    }

    fn add_left(&mut self, name: &[u8]) {
        let shown = path(name).display().to_string();
        self.restored.left.push(shown);
    }

    /// Makes locked folders accessible in which something is to be restored, from the top down. Those
    /// that the turn did not change are locked again at the end. Returns whether there were any.
    async fn unlock(&mut self) -> Result<bool, AgentError> {
        let to_restore = self
            .actions
            .iter()
            .filter(|(_, action)| **action == PathAction::Restore);
        let parent = |path: &[u8]| path.iter().rposition(|byte| *byte == b'/');
        let parents: HashSet<&[u8]> = to_restore
            .filter_map(|(path, _)| Some(&path[..parent(path)?]))
            .collect();
        let mut is_any = false;
        for name in &self.order {
            let action = self.actions.get(name);
            let is_restored = action == Some(&PathAction::Restore);
            if let Some(entry) = self.present.get(name)
                && entry.kind == FileKind::Folder
                && entry.mode & 0o700 != 0o700
                && (is_restored || parents.contains(name.as_slice()))
            {
                let mode = entry.mode & 0o777;
                is_any |= is_done(self.sandbox.set_mode(path(name), mode | 0o700).await)?;
                if !is_restored {
                    self.unlocked.push((name.clone(), mode));
                }
            }
        }
        Ok(is_any)
    }

    /// Removes what the turn created, and what blocks the original files.
    async fn remove(&mut self) -> Result<(), AgentError> {
        for name in std::mem::take(&mut self.order).iter().rev() {
            let is_folder = self
                .present
                .get(name)
                .is_some_and(|entry| entry.kind == FileKind::Folder);
            let is_in_the_way = match self.planner.wanted(name) {
                Some(file) => is_folder != (file.kind == RecordedKind::Folder),
                None => !self.is_partial,
            };
            let is_left = match self.actions.get(name) {
                Some(PathAction::Leave) => true,
                Some(PathAction::Restore) if is_in_the_way => {
                    if is_done(self.sandbox.remove(path(name), false).await)? {
                        self.restored.removed += u64::from(!is_folder);
                        self.present.remove(name);
                        continue;
                    }
                    // A folder that stays only because it still holds files is not reported.
                    !is_folder || !self.has_children(name)
                }
                _ => false,
            };
            if is_left {
                self.add_left(name);
            }
        }
        Ok(())
    }

    fn has_children(&self, folder: &[u8]) -> bool {
        let is_inside = |path: &Vec<u8>| {
            path.strip_prefix(folder)
                .is_some_and(|rest| rest.starts_with(b"/"))
        };
        self.present.keys().any(is_inside)
    }

    async fn restore_files(&mut self, files: &[FileRecord]) -> Result<(), AgentError> {
        let mut folders = Vec::new();
        for file in files {
            let is_there = self.present.contains_key(&file.path);
            match self.actions.get(&file.path) {
                Some(PathAction::Leave) if !is_there => self.add_left(&file.path),
                Some(PathAction::Restore) => match self.restore_file(file).await? {
                    true if file.kind == RecordedKind::Folder => {
                        folders.push((file.path.clone(), file.mode & 0o777));
                    }
                    true => {}
                    false => self.add_left(&file.path),
                },
                _ => {}
            }
        }
        // At the end, because some modes forbid writing into the folder.
        for (name, mode) in folders.into_iter().chain(self.unlocked.drain(..)).rev() {
            let present = self.present.get(&name);
            if present.is_none_or(|entry| entry.mode & 0o777 != mode) {
                is_done(self.sandbox.set_mode(path(&name), mode).await)?;
            }
        }
        Ok(())
    }

    /// Restores one file, except for a folder's mode. Returns whether that succeeded.
    async fn restore_file(&mut self, file: &FileRecord) -> Result<bool, AgentError> {
        if self.has_replaced_parent(&file.path) {
            return Ok(false);
        }
        let path = path(&file.path);
        let present = self.present.get(&file.path);
        match &file.kind {
            RecordedKind::Folder if present.is_some() => Ok(true),
            RecordedKind::Folder => is_done(self.sandbox.make_folder(path).await),
            RecordedKind::Symlink { target } => {
                let target_now = present.and_then(|entry| entry.target.as_ref());
                if target_now.is_some_and(|found| found.0 == *target) {
                    return Ok(true);
                }
                let made = self.sandbox.make_link(path, OsStr::from_bytes(target));
                let is_made = is_done(made.await)?;
                self.restored.written += u64::from(is_made);
                Ok(is_made)
            }
            RecordedKind::File { content, .. } => {
                let is_as_it_was = |entry: &SurveyEntry| {
                    stamp(entry) == file.stamp || self.planner.matches_record(file, entry)
                };
                if present.is_some_and(is_as_it_was) {
                    return Ok(true);
                }
                let Some(content) = self.store.content(content).await? else {
                    warn!(path = %path.display(), "content of a file is missing");
                    return Ok(false);
                };
                // Writing would follow a link.
                if present.is_some_and(|entry| entry.kind != FileKind::File)
                    && !is_done(self.sandbox.remove(path, false).await)?
                {
                    return Ok(false);
                }
                let mode = Some(file.mode & 0o777);
                let written = self
                    .sandbox
                    .write_file_with(path, content, WriteMode::Replace, mode);
                let is_written = is_done(written.await)?;
                self.restored.written += u64::from(is_written);
                Ok(is_written)
            }
        }
    }

    /// Whether a parent folder has become something else and stays so: a link there would lead to
    /// files that the turn did not change.
    fn has_replaced_parent(&self, path: &[u8]) -> bool {
        parent_folders(path).any(|folder| {
            self.present
                .get(folder)
                .is_some_and(|entry| entry.kind != FileKind::Folder)
        })
    }
}

/// Whether the guest did it. A refusal leaves the path as it is; any other error ends the restoration.
fn is_done(outcome: Result<(), SandboxError>) -> Result<bool, AgentError> {
    match outcome {
        Ok(()) => Ok(true),
        Err(SandboxError::Refused(refusal)) => {
            warn!(%refusal, "cannot restore a path");
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
