//! The workspace as recorded by the first and the last checkpoint, to compare the current files with,
//! also during a turn. Takes no checkpoint itself. Entry type: [`Baseline`].

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Checkpoint;

use crate::checkpoint::KnownFiles;

#[derive(Debug)]
pub(crate) struct Baseline(Mutex<BaselineState>);

#[derive(Debug)]
struct BaselineState {
    first: Option<Checkpoint>,
    last: Arc<KnownFiles>,
}

impl Baseline {
    pub(crate) fn new(first: Option<Checkpoint>, last: KnownFiles) -> Self {
        Self(Mutex::new(BaselineState {
            first,
            last: Arc::new(last),
        }))
    }

    /// The workspace before the session's first change; `None` if there was none.
    pub(crate) fn first(&self) -> Option<Checkpoint> {
        self.lock().first.clone()
    }

    /// The files as recorded by the last checkpoint.
    pub(crate) fn known(&self) -> Arc<KnownFiles> {
        self.lock().last.clone()
    }

    /// Adds a checkpoint.
    pub(crate) fn add(&self, checkpoint: &Checkpoint, known: Arc<KnownFiles>) {
        let mut state = self.lock();
        state.first.get_or_insert_with(|| checkpoint.clone());
        state.last = known;
    }

    fn lock(&self) -> MutexGuard<'_, BaselineState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
