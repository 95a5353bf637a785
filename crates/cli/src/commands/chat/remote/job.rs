//! Jobs as the server tells of them, as far as they are of use here. Pure.

use jiff::Timestamp;
use protocol::job::{Failure, JobId};
use protocol::{Change, EventKind, SessionId};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RemoteJob {
    pub(crate) id: JobId,
    /// `queued`, `running`, `waiting`, `complete` or `failed`.
    pub(crate) state: String,
    #[serde(default)]
    pub(crate) failure: Option<Failure>,
    pub(crate) task: String,
    #[serde(default)]
    pub(crate) model: Option<String>,
    pub(crate) created: Timestamp,
    #[serde(default)]
    started: Option<Timestamp>,
    #[serde(default)]
    ended: Option<Timestamp>,
    /// From its first attempt on.
    #[serde(default)]
    pub(crate) session: Option<SessionId>,
    /// How many messages it has; the turn with the same number is the last.
    pub(crate) messages: u32,
}

impl RemoteJob {
    /// When something happened to it last.
    pub(crate) fn changed(&self) -> Timestamp {
        self.ended.or(self.started).unwrap_or(self.created)
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "complete" | "failed")
    }

    /// In one line, for a person.
    pub(crate) fn described(&self) -> String {
        match &self.failure {
            Some(failure) => format!("the job has failed: {}", failure.message),
            None => match self.state.as_str() {
                "queued" => "the job waits to be begun".to_owned(),
                "running" => "the job is running".to_owned(),
                "waiting" => "the job waits for a message".to_owned(),
                "complete" => "the job is complete; a message wakes it up again".to_owned(),
                other => format!("the job is {other}"),
            },
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct JobList {
    pub(super) jobs: Vec<RemoteJob>,
}

/// What a job has changed.
#[derive(Debug, Deserialize)]
pub(super) struct Changes {
    files: Vec<FileChange>,
    is_truncated: bool,
    #[serde(default)]
    not_compared: Vec<serde::de::IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct FileChange {
    path: String,
    #[serde(default)]
    diff: Option<String>,
}

impl From<Changes> for EventKind {
    fn from(changes: Changes) -> Self {
        let more = u64::from(changes.is_truncated);
        Self::Differs {
            left_out: more + changes.not_compared.len() as u64,
            changes: changes
                .files
                .into_iter()
                .map(|file| Change {
                    path: file.path,
                    diff: file.diff,
                })
                .collect(),
        }
    }
}

/// The names in one folder.
#[derive(Debug, Deserialize)]
pub(super) struct Folder {
    entries: Vec<Entry>,
    is_truncated: bool,
}

#[derive(Debug, Deserialize)]
struct Entry {
    path: String,
    kind: String,
}

impl From<Folder> for EventKind {
    fn from(folder: Folder) -> Self {
        let has_folders = folder.entries.iter().any(|entry| entry.kind == "folder");
        Self::Files {
            // Those below other folders are not looked for.
            is_cut: folder.is_truncated || has_folders,
            paths: folder
                .entries
                .into_iter()
                .filter(|entry| entry.kind == "file")
                .map(|entry| entry.path)
                .collect(),
        }
    }
}

/// Why the server said no.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Problem {
    pub(super) title: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) hint: Option<String>,
}
