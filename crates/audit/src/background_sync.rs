//! Syncs a log to disk on a separate thread: a sync can take long, and a line is answered before it.
//! Entry type: [`BackgroundSync`].

use std::fs::File;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Delay from the first unsynced line to the sync. A power failure can lose lines of this time, the end of
/// the process none.
const SYNC_DELAY: Duration = Duration::from_secs(1);

/// At most one thread, which ends when everything is synced.
#[derive(Clone, Debug, Default)]
pub(crate) struct BackgroundSync {
    state: Arc<Mutex<SyncState>>,
}

#[derive(Debug, Default)]
struct SyncState {
    /// The file with unsynced lines.
    unsynced: Option<File>,
    is_running: bool,
}

impl BackgroundSync {
    /// Syncs a file soon. Does not wait.
    pub(crate) fn request(&self, file: &File) {
        let mut state = self.state();
        if state.unsynced.is_none() {
            // Without a descriptor or a thread, the kernel writes the lines within its own interval.
            state.unsynced = file.try_clone().ok();
        }
        if !state.is_running {
            let sync = self.clone();
            let spawned = thread::Builder::new()
                .name("audit-sync".to_owned())
                .spawn(move || sync.run());
            state.is_running = spawned.is_ok();
        }
    }

    /// Drops the request for a file that the writer has left. Whoever rotated that file has synced it.
    pub(crate) fn forget(&self) {
        self.state().unsynced = None;
    }

    fn run(&self) {
        loop {
            thread::sleep(SYNC_DELAY);
            let Some(file) = self.next() else {
                return;
            };
            if let Err(error) = file.sync_data() {
                tracing::warn!(%error, "cannot sync an audit log to disk");
            }
        }
    }

    fn next(&self) -> Option<File> {
        let mut state = self.state();
        let file = state.unsynced.take();
        state.is_running = file.is_some();
        file
    }

    fn state(&self) -> MutexGuard<'_, SyncState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thread_syncs_what_is_requested_meanwhile_and_ends() {
        let file = tempfile::tempfile().unwrap();
        // No thread is started: this test takes its place.
        let sync = BackgroundSync::default();
        sync.state().is_running = true;
        sync.request(&file);
        sync.request(&file);
        assert!(sync.next().is_some(), "two requests are one sync");
        sync.request(&file);
        assert!(sync.next().is_some(), "a request during a sync is not lost");
        sync.request(&file);
        sync.forget();
        assert!(sync.next().is_none(), "a rotated file is not synced again");
        assert!(!sync.state().is_running);
    }
}
