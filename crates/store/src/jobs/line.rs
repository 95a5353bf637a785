//! A line of those who want something of the database at the same time.
//!
//! Whoever comes first has a task started that serves all who wait, again and again until nobody
//! does. So what was asked for is done also when the one who asked no longer waits. Entry type:
//! [`Line`].

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Those who wait, in the order in which they came.
pub(super) struct Line<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    waiting: VecDeque<T>,
    /// A task serves them.
    is_attended: bool,
}

impl<T> Line<T> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: VecDeque::new(),
                is_attended: false,
            }),
        }
    }

    /// Whether a task must be started that serves the line; see [`Shift`].
    #[must_use]
    pub(super) fn join(&self, one: T) -> bool {
        let mut state = self.state();
        state.waiting.push_back(one);
        !std::mem::replace(&mut state.is_attended, true)
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> fmt::Debug for Line<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        formatter
            .debug_struct("Line")
            .field("waiting", &state.waiting.len())
            .field("is_attended", &state.is_attended)
            .finish()
    }
}

/// The duty to serve a line. If it is dropped before the line's end, because its task panicked or
/// the runtime ended, so are all who wait: they must hear of it by that.
pub(super) struct Shift<'l, T> {
    line: &'l Line<T>,
    is_over: bool,
}

impl<'l, T> Shift<'l, T> {
    /// For who was told so by [`Line::join`], and nobody else.
    pub(super) fn begin(line: &'l Line<T>) -> Self {
        Self {
            line,
            is_over: false,
        }
    }

    /// The next ones, at most so many; when there are none, the shift is over.
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

impl<T> Drop for Shift<'_, T> {
    fn drop(&mut self) {
        // When it is over, somebody else may serve the line by now.
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

    use std::sync::Arc;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn one_at_a_time_serves_a_line() {
        let line = Line::new();
        assert!(line.join(1));
        assert!(!line.join(2));
        assert!(!line.join(3));
        let mut shift = Shift::begin(&line);
        assert_eq!(shift.next(2), Some(vec![1, 2]));
        assert!(!line.join(4), "it is being served");
        assert_eq!(shift.next(2), Some(vec![3, 4]));
        assert_eq!(shift.next(2), None);
        assert!(line.join(5), "it was served to its end");
        drop(shift);
        assert_eq!(
            Shift::begin(&line).next(2),
            Some(vec![5]),
            "and not by that"
        );
    }

    #[tokio::test]
    async fn nobody_waits_for_a_task_that_is_gone() {
        let line = Arc::new(Line::new());
        let (first, first_told) = oneshot::channel::<()>();
        let (second, second_told) = oneshot::channel::<()>();
        assert!(line.join(first));
        let served = line.clone();
        let task = tokio::spawn(async move {
            let mut shift = Shift::begin(&served);
            let taken = shift.next(1).unwrap();
            std::future::pending::<()>().await;
            drop(taken);
        });
        tokio::task::yield_now().await;
        assert!(!line.join(second));
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(first_told.await.is_err());
        assert!(second_told.await.is_err());
        let (third, _) = oneshot::channel();
        assert!(line.join(third), "the line goes on");
    }
}
