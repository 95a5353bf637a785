//! Ways into the sandbox for work that goes on beside the turn: answers to questions, looks at
//! background commands. A visit never keeps a sandbox alive: it is over when the sandbox goes.

use std::sync::Arc;

use sandbox::Sandbox;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;

/// The way into one sandbox.
#[derive(Debug)]
pub(crate) struct Door {
    sandbox: Arc<Sandbox>,
    is_going: CancellationToken,
    visitors: TaskTracker,
}

impl Door {
    pub(crate) fn new(sandbox: Arc<Sandbox>) -> Self {
        Self {
            sandbox,
            is_going: CancellationToken::new(),
            visitors: TaskTracker::new(),
        }
    }

    fn enter(&self) -> Visit {
        Visit {
            sandbox: self.sandbox.clone(),
            is_going: self.is_going.clone(),
            _presence: self.visitors.token(),
        }
    }

    /// Sends all away, and waits until they are out. Nobody can come in any more: whoever closes
    /// a door has taken it.
    pub(crate) async fn close(self) {
        self.is_going.cancel();
        self.visitors.close();
        self.visitors.wait().await;
    }
}

impl Drop for Door {
    /// Also when a session is dropped in the middle of its work, nobody stays behind.
    fn drop(&mut self) {
        self.is_going.cancel();
    }
}

/// Leads to whichever sandbox stands.
#[derive(Debug, Clone)]
pub(crate) struct Visits(watch::Receiver<Option<Door>>);

impl Visits {
    pub(crate) fn new(door: watch::Receiver<Option<Door>>) -> Self {
        Self(door)
    }

    /// Waits until a sandbox stands; `None` when none ever will.
    pub(crate) async fn enter(&mut self) -> Option<Visit> {
        let door = self.0.wait_for(Option::is_some).await.ok()?;
        // Under the lock, so that who takes the door knows of everybody who came in.
        door.as_ref().map(Door::enter)
    }

    /// Goes in if one stands now.
    pub(crate) fn enter_now(&self) -> Option<Visit> {
        self.0.borrow().as_ref().map(Door::enter)
    }
}

/// A stay in a sandbox.
#[derive(Debug)]
pub(crate) struct Visit {
    // Let go before the presence.
    sandbox: Arc<Sandbox>,
    is_going: CancellationToken,
    _presence: TaskTrackerToken,
}

impl Visit {
    /// Does something there; `None` when the sandbox had to go first.
    pub(crate) async fn spend<T>(&self, work: impl AsyncFnOnce(&Sandbox) -> T) -> Option<T> {
        tokio::select! {
            biased;
            () = self.is_going.cancelled() => None,
            done = work(&self.sandbox) => Some(done),
        }
    }
}
