//! Shell commands that go on in the background, for the record: which command a job is, and that its
//! end is recorded once, by whoever hears of it first. Entry type: [`Background`].

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use link::request::Exit;

use crate::recorder::Run;

/// More are not told apart; a guest can make up numbers.
const MAX_JOBS: usize = 4096;

/// The commands, by the numbers that the guest gave them.
#[derive(Debug, Default)]
pub(crate) struct Background {
    runs: Mutex<HashMap<u32, Run>>,
}

impl Background {
    /// A command has not ended within the time that it was waited for.
    pub(crate) fn add(&self, job: u32, run: Run) {
        let mut runs = self.runs();
        if runs.len() < MAX_JOBS {
            // An older one of this number is recorded as abandoned.
            runs.insert(job, run);
        }
    }

    /// Which command it is, if it still runs.
    pub(crate) fn exec(&self, job: u32) -> Option<u64> {
        self.runs().get(&job).map(|run| run.exec)
    }

    /// It printed something.
    pub(crate) fn printed(&self, job: u32, bytes: usize) {
        if let Some(run) = self.runs().get_mut(&job) {
            run.printed(bytes);
        }
    }

    /// It has ended.
    pub(crate) async fn end(&self, job: u32, exit: &Exit, printed: Option<u64>) {
        let run = self.runs().remove(&job);
        if let Some(mut run) = run {
            run.printed_in_all(printed.unwrap_or(0));
            run.end(outcome(exit)).await;
        }
    }

    /// All that still run end with the sandbox.
    pub(crate) async fn end_all(&self) {
        let runs = std::mem::take(&mut *self.runs());
        for mut run in runs.into_values() {
            run.end("ended with the sandbox".to_owned()).await;
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<u32, Run>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How a shell command ended, in words.
pub(crate) fn outcome(exit: &Exit) -> String {
    match exit.limit {
        Some(limit) => format!("{:?}, {limit:?} limit", exit.status),
        None => format!("{:?}", exit.status),
    }
}
