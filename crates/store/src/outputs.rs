//! Output of tools that was too long for a model, kept whole.

use protocol::{Kept, SessionId};

use crate::error::StoreError;
use crate::store::Store;

impl Store {
    /// Keeps output under the session's next handle, `output:1`, `output:2` and so on.
    pub async fn keep_output(
        &self,
        _session: &SessionId,
        _output: Vec<u8>,
    ) -> Result<Kept, StoreError> {
        unimplemented!()
    }

    pub async fn output(
        &self,
        _session: &SessionId,
        _handle: &str,
    ) -> Result<Option<Vec<u8>>, StoreError> {
        unimplemented!()
    }
}
