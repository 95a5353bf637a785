//! The store as its owner sees it: a folder that is opened.

use std::path::Path;

use crate::error::StoreError;

/// An open store. Cheap to clone; clones share one connection.
#[derive(Debug, Clone)]
pub struct Store {}

impl Store {
    /// Opens the store in a folder, and makes both if they are not there.
    pub async fn open(_folder: &Path) -> Result<Self, StoreError> {
        unimplemented!()
    }
}
