//! A counter that only grows. Tests can wait for a value, with or without an async runtime.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// A blocking wait that takes longer fails the test instead of hanging it.
const WAIT_TIMEOUT: Duration = Duration::from_secs(120);

#[derive(Debug, Default)]
pub(crate) struct Counter {
    value: Mutex<usize>,
    changed: Condvar,
    woken: Notify,
}

impl Counter {
    pub(crate) fn get(&self) -> usize {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self) {
        *self.value.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.changed.notify_all();
        self.woken.notify_waiters();
    }

    pub(crate) async fn reaches(&self, wanted: usize) {
        loop {
            let mut woken = std::pin::pin!(self.woken.notified());
            // Registered before the value is read, so that a change in between is not missed.
            woken.as_mut().enable();
            if self.get() >= wanted {
                return;
            }
            woken.await;
        }
    }

    /// Blocks the thread. Must not be used in a runtime that other tasks depend on.
    pub(crate) fn wait(&self, wanted: usize, what: &str) {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        let (value, _) = self
            .changed
            .wait_timeout_while(value, WAIT_TIMEOUT, |value| *value < wanted)
            .unwrap_or_else(PoisonError::into_inner);
        let seen = *value;
        drop(value);
        assert!(
            seen >= wanted,
            "waited {WAIT_TIMEOUT:?} for {what} {wanted}, saw {seen}"
        );
    }
}
