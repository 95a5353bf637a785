//! What a job changed in its workspace since its start.
//!
//! The start is the first checkpoint of the job's session, or an empty workspace for a job without
//! input. The current state is read through [`crate::tree::UntrustedTree`], even while the job runs. The
//! number of files, the size of each and the total size of diffs are bounded. Files below `.git`
//! are ignored.

mod compare;
mod describe;
#[cfg(test)]
mod tests;
mod text;

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use protocol::job::{Job, LeftOut};
use protocol::{Checkpoint, EventKind, Moment, SessionId};
use serde::Serialize;
use store::{FileRecord, SessionStore, StoreError};
use utoipa::ToSchema;

use self::compare::{WorkspaceStart, compare};

/// What changed in one file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct FileChange {
    /// As it is asked for in the list of files.
    pub(crate) path: String,
    pub(crate) change: ChangeKind,
    /// Lines; zero if there is no diff.
    pub(crate) added: u64,
    pub(crate) removed: u64,
    /// In unified form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) diff: Option<String>,
    /// Why there is no diff, or what it does not show.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) note: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChangeKind {
    Added,
    Removed,
    Changed,
}

/// All that changed, by path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Changes {
    pub(crate) files: Vec<FileChange>,
    /// Whether more files changed than these.
    pub(crate) is_truncated: bool,
    /// What is not compared, with the reason; at most a hundred.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_compared: Vec<LeftOut>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum ChangesError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot read the workspace")]
    Files(#[from] io::Error),
}

/// Maximum length of [`Changes::not_compared`].
const MAX_NOT_COMPARED: usize = 100;

/// Events per query.
const EVENT_PAGE_SIZE: u32 = 256;

/// What changed in a job's workspace since its start; empty before the job has a session.
pub(crate) async fn changes(
    store: &SessionStore,
    job: &Job,
    workspace: &Path,
) -> Result<Changes, ChangesError> {
    let start = match (&job.request.input, &job.session) {
        (_, None) => return Ok(Changes::default()),
        (None, Some(_)) => WorkspaceStart::default(),
        (Some(_), Some(session)) => match first_checkpoint(store, session).await? {
            // Nothing can have changed before the first checkpoint.
            None => return Ok(Changes::default()),
            Some((checkpoint, at)) => {
                let Some(files) = store.checkpoint(session, checkpoint.number).await? else {
                    return Ok(missing_start());
                };
                WorkspaceStart::new(files, checkpoint.skipped, at)
            }
        },
    };
    compare(store, start, workspace).await
}

/// The first checkpoint of a session and the time of its event, in nanoseconds since the epoch.
async fn first_checkpoint(
    store: &SessionStore,
    session: &SessionId,
) -> Result<Option<(Checkpoint, i64)>, StoreError> {
    let mut after = 0;
    loop {
        let events = store.events_after(session, after, EVENT_PAGE_SIZE).await?;
        // Stored events always have a sequence number.
        let Some(last) = events.last().and_then(|last| last.seq) else {
            return Ok(None);
        };
        after = last;
        for event in events {
            if let EventKind::CheckpointMade {
                moment: Moment::Before,
                checkpoint,
                ..
            } = event.kind
            {
                let at = i64::try_from(event.time.as_nanosecond()).unwrap_or(i64::MAX);
                return Ok(Some((checkpoint, at)));
            }
        }
    }
}

fn missing_start() -> Changes {
    Changes {
        not_compared: vec![LeftOut {
            path: "…".to_owned(),
            reason: "the start of the job is no longer on record".to_owned(),
        }],
        ..Changes::default()
    }
}

fn not_compared(skipped: BTreeMap<String, String>) -> Vec<LeftOut> {
    let named = skipped.into_iter().take(MAX_NOT_COMPARED);
    named
        .map(|(path, reason)| LeftOut { path, reason })
        .collect()
}

/// Whether a path is below a `.git` folder.
fn is_git_internal(path: &[u8]) -> bool {
    path.split(|byte| *byte == b'/').any(|part| part == b".git")
}

impl WorkspaceStart {
    fn new(files: Vec<FileRecord>, skipped: BTreeMap<String, String>, at: i64) -> Self {
        let files = files
            .into_iter()
            .filter(|file| !is_git_internal(&file.path));
        Self {
            files: files.map(|file| (file.path.clone(), file)).collect(),
            skipped,
            at,
        }
    }
}
