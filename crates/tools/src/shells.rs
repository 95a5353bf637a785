//! State of each sandbox's shell between calls: its folder, and its jobs with their start times. A
//! replacement sandbox starts with empty state, even under the same id. Losing the state only costs
//! a detail in a result.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use sandbox::request::{ByteString, ShellProgress};
use sandbox::{Sandbox, WORKSPACE_PATH};

/// Shared by the tools that run commands.
#[derive(Debug, Default)]
pub(crate) struct ShellRegistry {
    sandboxes: Mutex<HashMap<String, SandboxShell>>,
}

#[derive(Debug)]
struct SandboxShell {
    /// Instance number of the sandbox.
    instance: u64,
    cwd: ByteString,
    jobs: BTreeMap<u32, ShellJob>,
}

impl SandboxShell {
    fn new(instance: u64) -> Self {
        Self {
            instance,
            cwd: ByteString::from(WORKSPACE_PATH),
            jobs: BTreeMap::new(),
        }
    }
}

/// A command that runs in the background.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellJob {
    pub(crate) started: Instant,
    /// The number of kernel OOM kills before it started.
    pub(crate) memory_kills: u64,
}

impl ShellRegistry {
    fn lock(&self) -> MutexGuard<'_, HashMap<String, SandboxShell>> {
        self.sandboxes
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, sandbox: &Sandbox, change: impl FnOnce(&mut SandboxShell) -> T) -> T {
        let instance = sandbox.instance();
        let mut sandboxes = self.lock();
        let shell = sandboxes
            .entry(sandbox.id().to_owned())
            .or_insert_with(|| SandboxShell::new(instance));
        match shell.instance.cmp(&instance) {
            Ordering::Equal => change(shell),
            Ordering::Less => {
                *shell = SandboxShell::new(instance);
                change(shell)
            }
            // The sandbox was replaced while a call in it was running.
            Ordering::Greater => change(&mut SandboxShell::new(instance)),
        }
    }

    /// Records whether the job still runs.
    pub(crate) fn record_progress(
        &self,
        sandbox: &Sandbox,
        progress: &ShellProgress,
        job: ShellJob,
    ) {
        self.with(sandbox, |shell| {
            if progress.exit.is_some() && !progress.output_open {
                shell.jobs.remove(&progress.job)
            } else {
                shell.jobs.insert(progress.job, job)
            }
        });
    }

    /// Records the folder after a command has ended. Returns whether it changed.
    pub(crate) fn update_cwd(&self, sandbox: &Sandbox, cwd: &ByteString) -> bool {
        self.with(sandbox, |shell| {
            let before = std::mem::replace(&mut shell.cwd, cwd.clone());
            before != *cwd
        })
    }

    pub(crate) fn job(&self, sandbox: &Sandbox, job: u32) -> Option<ShellJob> {
        self.with(sandbox, |shell| shell.jobs.get(&job).copied())
    }

    /// Removes a job that no longer exists.
    pub(crate) fn forget(&self, sandbox: &Sandbox, job: u32) {
        self.with(sandbox, |shell| shell.jobs.remove(&job));
    }

    pub(crate) fn jobs(&self, sandbox: &Sandbox) -> Vec<u32> {
        self.with(sandbox, |shell| shell.jobs.keys().copied().collect())
    }
}
