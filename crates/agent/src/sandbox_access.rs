//! Access to the sandbox for work beside the turn: workspace queries and watching background commands.
//! A visit never keeps a sandbox alive: its work is cancelled when the sandbox ends.

use std::sync::Arc;

use sandbox::Sandbox;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// Access to one sandbox.
#[derive(Debug)]
pub(crate) struct SharedSandbox {
    sandbox: Arc<Sandbox>,
    is_going: CancellationToken,
    visitors: TaskTracker,
}

impl SharedSandbox {
    pub(crate) fn new(sandbox: Arc<Sandbox>) -> Self {
        Self {
            sandbox,
            is_going: CancellationToken::new(),
            visitors: TaskTracker::new(),
        }
    }

    fn enter(&self) -> SandboxLease {
        SandboxLease {
            sandbox: self.sandbox.clone(),
            is_going: self.is_going.clone(),
            _presence: self.visitors.token(),
        }
    }

    /// Cancels all visits and waits until they are dropped. Takes `self`, so no visit can start after it.
    pub(crate) async fn close(self) {
        self.is_going.cancel();
        self.visitors.close();
        self.visitors.wait().await;
    }
}

impl Drop for SharedSandbox {
    /// Cancels all visits also when a session is dropped in the middle of its work.
    fn drop(&mut self) {
        self.is_going.cancel();
    }
}

/// Access to whichever sandbox is running.
#[derive(Debug, Clone)]
pub(crate) struct SandboxAccess(watch::Receiver<Option<SharedSandbox>>);

impl SandboxAccess {
    pub(crate) fn new(door: watch::Receiver<Option<SharedSandbox>>) -> Self {
        Self(door)
    }

    /// Waits until a sandbox runs; `None` when none ever will.
    pub(crate) async fn enter(&mut self) -> Option<SandboxLease> {
        let door = self.0.wait_for(Option::is_some).await.ok()?;
        // Under the watch's lock, so that the owner that takes the door out knows of every visit.
        door.as_ref().map(SharedSandbox::enter)
    }

    /// Enters if a sandbox runs now.
    pub(crate) fn try_acquire(&self) -> Option<SandboxLease> {
        self.0.borrow().as_ref().map(SharedSandbox::enter)
    }
}

/// A reference to a running sandbox that can be revoked.
#[derive(Debug)]
pub(crate) struct SandboxLease {
    // Dropped before the presence token.
    sandbox: Arc<Sandbox>,
    is_going: CancellationToken,
    _presence: TaskTrackerToken,
}

impl SandboxLease {
    /// Does some work in the sandbox; `None` if the sandbox ended first.
    pub(crate) async fn spend<T>(&self, work: impl AsyncFnOnce(&Sandbox) -> T) -> Option<T> {
        tokio::select! {
            biased;
            () = self.is_going.cancelled() => None,
            done = work(&self.sandbox) => Some(done),
        }
    }
}
