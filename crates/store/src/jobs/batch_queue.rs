//! A queue of concurrent requests to the database, which are processed in batches.
//!
//! The first request starts a task that processes batches until the queue is empty. So a request is processed
//! even if its caller stops waiting. Entry type: [`BatchQueue`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Waiting requests, in order of arrival.
pub(super) struct BatchQueue<T> {
    state: Mutex<BatchQueueState<T>>,
}

struct BatchQueueState<T> {
    waiting: VecDeque<T>,
    /// Whether a task is processing the queue.
    is_attended: bool,
}

impl<T> BatchQueue<T> {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(BatchQueueState {
                waiting: VecDeque::new(),
                is_attended: false,
            }),
        })
    }

    /// Adds a request. If no task is processing the queue, returns a [`BatchWorker`] for a new task.
    #[must_use]
    pub(super) fn join(self: &Arc<Self>, one: T) -> Option<BatchWorker<T>> {
        let mut state = self.state();
        state.waiting.push_back(one);
        let is_attended = std::mem::replace(&mut state.is_attended, true);
        (!is_attended).then(|| BatchWorker {
            line: self.clone(),
            is_over: false,
        })
    }

    fn state(&self) -> MutexGuard<'_, BatchQueueState<T>> {
        // No code panics while it holds the lock, so a poisoned state is still consistent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for BatchQueue<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("BatchQueue")
            .field("waiting", &state.waiting.len())
            .field("has_worker", &state.is_attended)
            .finish()
    }
}

/// The processing side of a queue. If it is dropped before the queue is empty (its task panicked, or the
/// runtime shut down and may never have started it), all waiting requests are dropped too. Their callers must
/// notice that.
pub(super) struct BatchWorker<T> {
    line: Arc<BatchQueue<T>>,
    is_over: bool,
}

impl<T> BatchWorker<T> {
    /// The next batch, of at most `most` requests. `None` if the queue is empty; then processing ends.
    pub(super) fn next(&mut self, most: usize) -> Option<Vec<T>> {
        let mut state = self.line.state();
        let count = state.waiting.len().min(most);
        if count == 0 {
            state.is_attended = false;
            self.is_over = true;
            return None;
        }
        Some(state.waiting.drain(..count).collect())
    }
}

impl<T> Drop for BatchWorker<T> {
    fn drop(&mut self) {
        // After a normal end, another task may already be processing the queue.
        if !self.is_over {
            let mut state = self.line.state();
            state.is_attended = false;
            state.waiting.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn one_at_a_time_serves_a_line() {
        let line = BatchQueue::new();
        let mut shift = line.join(1).unwrap();
        assert!(line.join(2).is_none());
        assert!(line.join(3).is_none());
        assert_eq!(shift.next(2), Some(vec![1, 2]));
        assert!(line.join(4).is_none(), "it is being served");
        assert_eq!(shift.next(2), Some(vec![3, 4]));
        assert_eq!(shift.next(2), None);
        let mut other = line.join(5).unwrap();
        drop(shift);
        assert_eq!(other.next(2), Some(vec![5]), "it was not served by that");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_task_that_is_gone() {
        let line = BatchQueue::new();
        for is_begun in [true, false] {
            let (first, first_told) = oneshot::channel::<()>();
            let (second, second_told) = oneshot::channel::<()>();
            let mut shift = line.join(first).unwrap();
            let task = tokio::spawn(async move {
                let taken = shift.next(1).unwrap();
                std::future::pending::<()>().await;
                drop(taken);
            });
            if is_begun {
                tokio::task::yield_now().await;
            }
            assert!(line.join(second).is_none());
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            assert!(first_told.await.is_err());
            assert!(second_told.await.is_err());
        }
    }
}
