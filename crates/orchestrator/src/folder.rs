//! Paths of a job's files: `jobs/ID/{input.txt,input.zip,workspace,logs,output.zip}`.

use std::path::{Path, PathBuf};

use protocol::job::JobId;

/// The folder of a job. Only computes paths; does no I/O.
#[derive(Debug, Clone)]
pub(crate) struct JobFolder(PathBuf);

impl JobFolder {
    pub(crate) fn new(data: &Path, job: JobId) -> Self {
        Self(data.join("jobs").join(job.to_string()))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The task, as it was given.
    pub(crate) fn input(&self) -> PathBuf {
        self.0.join("input.txt")
    }

    /// The zip that came with the task.
    pub(crate) fn upload(&self) -> PathBuf {
        self.0.join("input.zip")
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.0.join("workspace")
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    /// The human-readable log.
    pub(crate) fn log(&self) -> PathBuf {
        self.logs().join("job.log")
    }

    /// What the sandbox did, hash-chained.
    pub(crate) fn audit(&self) -> PathBuf {
        self.logs().join("audit.jsonl")
    }

    /// The workspace, packed.
    pub(crate) fn output(&self) -> PathBuf {
        self.0.join("output.zip")
    }
}
