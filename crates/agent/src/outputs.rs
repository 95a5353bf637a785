//! Long outputs of tools, kept in the store.

use futures_util::future::BoxFuture;
use protocol::{Kept, SessionId};
use store::{Store, StoreError};
use tools::{Outputs, ToolError};

#[derive(Debug)]
pub(crate) struct StoredOutputs {
    pub(crate) store: Store,
    pub(crate) session: SessionId,
}

impl Outputs for StoredOutputs {
    fn keep(&self, output: Vec<u8>) -> BoxFuture<'_, Result<Kept, ToolError>> {
        Box::pin(async {
            let kept = self.store.keep_output(&self.session, output).await;
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

fn refused(error: &StoreError) -> ToolError {
    ToolError::Refused(error.to_string())
}
