//! What a session has changed: the current workspace compared with its first checkpoint. Reads only
//! files that may have changed, stores nothing, and limits how much is shown.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use protocol::{Change, Checkpoint, SessionId};
use sandbox::request::{ByteString, FileKind, ListRequest, SurveyEntry};
use sandbox::{Sandbox, SandboxError};
use sha2::{Digest, Sha256};
use store::{ContentHash, FileRecord, RecordedKind, SessionStore};

use crate::checkpoint::{
    KnownFiles, MAX_CHECKPOINT_FILE_BYTES, MAX_CHECKPOINT_FILES, is_unrecorded, path, stamp,
};
use crate::error::AgentError;

/// Maximum number of files shown.
const MAX_SHOWN_FILES: usize = 200;

/// Maximum bytes of all diffs together.
const MAX_DIFF_BYTES: usize = 1 << 20;

/// Maximum bytes of a file whose diff is shown.
const MAX_SHOWN_FILE_BYTES: u64 = 1 << 20;

/// Inputs of a comparison.
pub(crate) struct WorkspaceComparison<'a> {
    pub(crate) sandbox: &'a Sandbox,
    pub(crate) store: &'a SessionStore,
    pub(crate) session: &'a SessionId,
    /// The files as recorded by the last checkpoint.
    pub(crate) known: Arc<KnownFiles>,
}

/// A changed path: what was there, and what is there now.
struct ChangedPath<'a> {
    path: &'a [u8],
    old: Option<&'a FileRecord>,
    new: Option<&'a SurveyEntry>,
}

impl WorkspaceComparison<'_> {
    /// The changes since a checkpoint that are shown, and the number of those left out.
    pub(crate) async fn with(
        &self,
        checkpoint: &Checkpoint,
    ) -> Result<(Vec<Change>, u64), AgentError> {
        let files = self.store.checkpoint(self.session, checkpoint.number);
        let files = files.await?.ok_or(AgentError::FirstCheckpointGone)?;
        let first = KnownFiles::of(files);
        let survey = self.sandbox.survey("", MAX_CHECKPOINT_FILES).await?;
        let (present, is_cut) = survey.collect().await?;
        let listed = self.listed().await?;
        let is_ignored = |path: &[u8]| listed.as_ref().is_some_and(|files| !files.contains(path));

        let mut paths: BTreeMap<&[u8], ChangedPath<'_>> = BTreeMap::new();
        for (path, old) in first.files() {
            // A file that a truncated survey did not list may still be there.
            if old.kind != RecordedKind::Folder && !is_cut {
                let (old, new) = (Some(old), None);
                paths.insert(path, ChangedPath { path, old, new });
            }
        }
        for new in &present {
            let path = new.path.0.as_slice();
            if matches!(new.kind, FileKind::Folder | FileKind::Other)
                || is_unrecorded(&checkpoint.skipped, path)
            {
                continue;
            }
            let old = first.files().get(path);
            let old = old.filter(|old| old.kind != RecordedKind::Folder);
            let new = Some(new);
            paths.insert(path, ChangedPath { path, old, new });
        }
        let (mut there, mut gone, mut left_out) = (Vec::new(), Vec::new(), 0);
        for changed in paths.into_values() {
            let is_aside = match changed.new {
                Some(_) => is_ignored(changed.path),
                None => changed.path.starts_with(b".git/"),
            };
            if !self.is_changed(&first, &changed, !is_aside).await? {
                continue;
            }
            match changed.new {
                _ if is_aside => left_out += 1,
                Some(_) => there.push(changed),
                None => gone.push(changed),
            }
        }
        // Existing files come first, so that removed ones do not push them out.
        let mut shown: Vec<ChangedPath<'_>> = there.into_iter().chain(gone).collect();
        left_out += shown.len().saturating_sub(MAX_SHOWN_FILES) as u64;
        shown.truncate(MAX_SHOWN_FILES);
        shown.sort_by_key(|changed| changed.path);
        let (changes, more) = self.with_diffs(shown).await?;
        Ok((changes, left_out + more))
    }

    /// Files that are not ignored; `None` if there are too many to list.
    async fn listed(&self) -> Result<Option<HashSet<Vec<u8>>>, SandboxError> {
        let request = ListRequest {
            path: ByteString::from(""),
            depth: u32::MAX,
            ignore: true,
            hidden: true,
            globs: vec!["*".to_owned()],
            limit: MAX_CHECKPOINT_FILES,
        };
        let (entries, is_cut) = self.sandbox.list(request).await?.collect().await?;
        let paths = entries.into_iter().map(|entry| entry.path.0);
        Ok((!is_cut).then(|| paths.collect()))
    }

    /// Whether the file changed. If that cannot be decided without reading and `may_read` is false, it
    /// counts as unchanged.
    async fn is_changed(
        &self,
        first: &KnownFiles,
        changed: &ChangedPath<'_>,
        may_read: bool,
    ) -> Result<bool, AgentError> {
        let (Some(old), Some(new)) = (changed.old, changed.new) else {
            return Ok(true);
        };
        let (size, content) = match (&old.kind, new.kind, &new.target) {
            (RecordedKind::File { size, content }, FileKind::File, _) => (*size, content),
            (RecordedKind::Symlink { target }, FileKind::Symlink, Some(now)) => {
                return Ok(*target != now.0);
            }
            _ => return Ok(true),
        };
        if old.mode != new.mode || size != new.size {
            return Ok(true);
        }
        let stamp = stamp(new);
        let known = [first, &self.known].into_iter();
        let mut known = known.filter_map(|known| known.content(changed.path, size, &stamp));
        match known.next() {
            Some(known) => Ok(known != *content),
            None if may_read => {
                let now = self.read(changed.path, MAX_CHECKPOINT_FILE_BYTES).await?;
                Ok(now.is_none_or(|now| ContentHash(Sha256::digest(&now).into()) != *content))
            }
            None => Ok(false),
        }
    }

    /// The content of a file; `None` if it can no longer be read.
    async fn read(&self, name: &[u8], most: u64) -> Result<Option<Vec<u8>>, AgentError> {
        match self.sandbox.read_file(path(name), 0, Some(most)).await {
            Ok((_, content)) => Ok(Some(content)),
            Err(SandboxError::Refused(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Changes with their diffs, up to the size limit, and the number of those left out.
    async fn with_diffs(
        &self,
        shown: Vec<ChangedPath<'_>>,
    ) -> Result<(Vec<Change>, u64), AgentError> {
        let (mut changes, mut left_out, mut room) = (Vec::new(), 0, MAX_DIFF_BYTES);
        for changed in shown {
            let before = self.content_before(&changed).await?;
            let diff = match (before, self.content_now(&changed).await?) {
                (Some(old), Some(new)) => diff_blocking(old, new).await,
                _ => None,
            };
            let length = diff.as_ref().map_or(0, String::len);
            if length > room {
                left_out += 1;
                continue;
            }
            room -= length;
            let path = path(changed.path).display().to_string();
            changes.push(Change { path, diff });
        }
        Ok((changes, left_out))
    }

    /// The old content, if it can be shown; empty for a file that did not exist.
    async fn content_before(
        &self,
        changed: &ChangedPath<'_>,
    ) -> Result<Option<Vec<u8>>, AgentError> {
        Ok(match changed.old.map(|old| &old.kind) {
            None => Some(Vec::new()),
            Some(RecordedKind::File { size, content }) if *size <= MAX_SHOWN_FILE_BYTES => {
                self.store.content(content).await?
            }
            Some(_) => None,
        })
    }

    /// The current content, if it can be shown; empty for a file that is gone.
    async fn content_now(&self, changed: &ChangedPath<'_>) -> Result<Option<Vec<u8>>, AgentError> {
        match changed.new {
            None => Ok(Some(Vec::new())),
            Some(new) if new.kind == FileKind::File && new.size <= MAX_SHOWN_FILE_BYTES => {
                self.read(changed.path, MAX_SHOWN_FILE_BYTES).await
            }
            Some(_) => Ok(None),
        }
    }
}

/// Runs on a blocking thread, because it may take a while.
async fn diff_blocking(old: Vec<u8>, new: Vec<u8>) -> Option<String> {
    let compared = tokio::task::spawn_blocking(move || tools::file_diff(&old, &new));
    compared.await.ok().flatten()
}
