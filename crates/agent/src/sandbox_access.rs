//! Access to the sandbox for work beside the turn: workspace queries and watching background commands.
//! A lease never keeps a sandbox alive: its work is cancelled when the sandbox ends. Entry type:
//! [`SandboxAccess`].

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
    closing: CancellationToken,
    leases: TaskTracker,
}

impl SharedSandbox {
    pub(crate) fn new(sandbox: Arc<Sandbox>) -> Self {
        Self {
            sandbox,
            closing: CancellationToken::new(),
            leases: TaskTracker::new(),
        }
    }

    fn lease(&self) -> SandboxLease {
        SandboxLease {
            sandbox: self.sandbox.clone(),
            closing: self.closing.clone(),
            _token: self.leases.token(),
        }
    }

    /// Revokes all leases and waits until they are dropped. Takes `self`, so that there are no new ones.
    pub(crate) async fn close(self) {
        self.closing.cancel();
        self.leases.close();
        self.leases.wait().await;
    }
}

impl Drop for SharedSandbox {
    /// Revokes all leases also when a session is dropped in the middle of its work.
    fn drop(&mut self) {
        self.closing.cancel();
    }
}

/// Access to whichever sandbox is running.
#[derive(Debug, Clone)]
pub(crate) struct SandboxAccess(watch::Receiver<Option<SharedSandbox>>);

impl SandboxAccess {
    pub(crate) fn new(shared: watch::Receiver<Option<SharedSandbox>>) -> Self {
        Self(shared)
    }

    /// Waits until a sandbox runs; `None` if none will run any more.
    pub(crate) async fn acquire(&mut self) -> Option<SandboxLease> {
        let shared = self.0.wait_for(Option::is_some).await.ok()?;
        // Under the watch's lock, so that `close` waits for every lease.
        shared.as_ref().map(SharedSandbox::lease)
    }

    /// A lease, if a sandbox runs now.
    pub(crate) fn try_acquire(&self) -> Option<SandboxLease> {
        self.0.borrow().as_ref().map(SharedSandbox::lease)
    }
}

/// A reference to a running sandbox that can be revoked.
#[derive(Debug)]
pub(crate) struct SandboxLease {
    // Dropped before the token.
    sandbox: Arc<Sandbox>,
    closing: CancellationToken,
    _token: TaskTrackerToken,
}

impl SandboxLease {
    /// Runs some work in the sandbox; `None` if the sandbox ended first.
    pub(crate) async fn run<T>(&self, work: impl AsyncFnOnce(&Sandbox) -> T) -> Option<T> {
        tokio::select! {
            biased;
            () = self.closing.cancelled() => None,
            done = work(&self.sandbox) => Some(done),
        }
    }
}
