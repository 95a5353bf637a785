//! Audit records of shell commands in the background: maps a job to its command, and records its
//! end exactly once, at the first report. Entry type: [`BackgroundJobs`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use link::request::Exit;

use crate::recorder::ExecRecord;

/// Jobs beyond this number are not tracked, since a guest can invent job numbers.
const MAX_JOBS: usize = 4096;

/// The commands by the job numbers that the guest assigned.
#[derive(Debug, Default)]
pub(crate) struct BackgroundJobs {
    runs: Mutex<HashMap<u32, ExecRecord>>,
}

impl BackgroundJobs {
    /// Tracks a command that outlived the time its caller waited for it.
    pub(crate) fn add(&self, job: u32, run: ExecRecord) {
        let mut runs = self.runs();
        if runs.len() < MAX_JOBS {
            // Replacing an older run with this number records that run as abandoned.
            runs.insert(job, run);
        }
    }

    /// The exec number of a job that still runs.
    pub(crate) fn exec(&self, job: u32) -> Option<u64> {
        self.runs().get(&job).map(|run| run.exec)
    }

    /// Counts output of the job.
    pub(crate) fn printed(&self, job: u32, bytes: usize) {
        if let Some(run) = self.runs().get_mut(&job) {
            run.printed(bytes);
        }
    }

    /// Records the end of the job.
    pub(crate) async fn end(&self, job: u32, exit: &Exit, printed: Option<u64>) {
        let run = self.runs().remove(&job);
        if let Some(mut run) = run {
            run.set_total_output(printed.unwrap_or(0));
            run.end(describe_exit(exit)).await;
        }
    }

    /// Records that all jobs that still run end with the sandbox.
    pub(crate) async fn end_all(&self) {
        let runs = std::mem::take(&mut *self.runs());
        for mut run in runs.into_values() {
            run.end("ended with the sandbox".to_owned()).await;
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u32, ExecRecord>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Describes how a shell command ended.
pub(crate) fn describe_exit(exit: &Exit) -> String {
    match exit.limit {
        Some(limit) => format!("{:?}, {limit:?} limit", exit.status),
        None => format!("{:?}", exit.status),
    }
}
