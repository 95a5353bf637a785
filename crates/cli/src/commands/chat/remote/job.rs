//! Jobs as the server describes them, with the fields used here. Pure.

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
    /// Set from its first attempt on.
    #[serde(default)]
    pub(crate) session: Option<SessionId>,
    /// Number of messages, which is also the number of the last turn.
    pub(crate) messages: u32,
}

impl RemoteJob {
    /// Time of the last change.
    pub(crate) fn changed(&self) -> Timestamp {
        self.ended.or(self.started).unwrap_or(self.created)
    }

    pub(crate) fn has_ended(&self) -> bool {
        matches!(self.state.as_str(), "complete" | "failed")
    }

    /// One line for the user.
    pub(crate) fn described(&self) -> String {
        match &self.failure {
            Some(failure) => format!("the job has failed: {}", failure.message),
            None => match self.state.as_str() {
                "queued" => "the job is queued".to_owned(),
                "running" => "the job is running".to_owned(),
                "waiting" => "the job waits for a message".to_owned(),
                "complete" => "the job is complete; a message resumes it".to_owned(),
                other => format!("the job is {other}"),
            },
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct RemoteJobList {
    pub(super) jobs: Vec<RemoteJob>,
}

/// The changes made by a job.
#[derive(Debug, Deserialize)]
pub(super) struct JobChanges {
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

impl From<JobChanges> for EventKind {
    fn from(changes: JobChanges) -> Self {
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

/// The entries of one folder.
#[derive(Debug, Deserialize)]
pub(super) struct JobFileList {
    entries: Vec<JobFileEntry>,
    is_truncated: bool,
}

#[derive(Debug, Deserialize)]
struct JobFileEntry {
    path: String,
    kind: String,
}

impl From<JobFileList> for EventKind {
    fn from(folder: JobFileList) -> Self {
        let has_folders = folder.entries.iter().any(|entry| entry.kind == "folder");
        Self::Files {
            // Entries of subfolders are not listed.
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

/// Why the server refused a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerProblem {
    pub(super) title: Option<String>,
    pub(super) detail: Option<String>,
    pub(super) hint: Option<String>,
}
