//! Long outputs of tools: stored in the store or, in a replay, in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use protocol::{Kept, SessionId};
use store::{SessionStore, StoreError};
use tools::{OutputStore, ToolError};

#[derive(Debug)]
pub(crate) struct StoredOutputs {
    pub(crate) store: SessionStore,
    pub(crate) session: SessionId,
}

impl OutputStore for StoredOutputs {
    fn store(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>> {
        Box::pin(async {
            let kept = self.store.store_output(&self.session, output).await;
            kept.map_err(|error| refused(&error))
        })
    }

    fn read<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async move {
            let output = self.store.output(&self.session, handle).await;
            output.map_err(|error| refused(&error))
        })
    }
}

/// Outputs of calls that are run again. The store keeps the original outputs, and an identical result
/// must contain the same handle.
#[derive(Debug)]
pub(crate) struct ReplayedOutputs {
    recorded: StoredOutputs,
    state: Mutex<ReplayedOutputState>,
}

#[derive(Debug, Default)]
struct ReplayedOutputState {
    /// The handle of the original output of the current call.
    handle: Option<String>,
    kept: HashMap<String, Vec<u8>>,
}

impl ReplayedOutputs {
    pub(crate) fn new(recorded: StoredOutputs) -> Self {
        Self {
            recorded,
            state: Mutex::default(),
        }
    }

    /// Sets the handle that the next call's output had in the recording, if it was kept.
    pub(crate) fn expect(&self, handle: Option<String>) {
        self.lock().handle = handle;
    }

    fn lock(&self) -> MutexGuard<'_, ReplayedOutputState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OutputStore for ReplayedOutputs {
    fn store(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>> {
        Box::pin(async move {
            let mut replay = self.lock();
            let number = replay.kept.len() + 1;
            let handle = replay.handle.take();
            let kept = Kept {
                handle: handle.unwrap_or_else(|| format!("output:new-{number}")),
                bytes: output.len() as u64,
            };
            replay.kept.insert(kept.handle.clone(), output);
            Ok(kept)
        })
    }

    fn read<'a>(&'a self, handle: &'a str) -> BoxFuture<'a, Result<Option<Vec<u8>>, ToolError>> {
        Box::pin(async move {
            let kept = self.lock().kept.get(handle).cloned();
            match kept {
                Some(output) => Ok(Some(output)),
                None => self.recorded.read(handle).await,
            }
        })
    }
}

fn refused(error: &StoreError) -> ToolError {
    ToolError::Refused(error.to_string())
}
