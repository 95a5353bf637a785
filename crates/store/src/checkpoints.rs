//! Checkpoints: which files a workspace had, and their contents, each content once.

use std::collections::HashSet;

use protocol::SessionId;
use serde::{Deserialize, Serialize};

use crate::error::StoreError;
use crate::store::Store;

/// SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Hash(pub [u8; 32]);

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Relative to the workspace. Bytes, because names need not be text.
    pub path: Vec<u8>,
    pub kind: RecordedKind,
    /// Permission bits.
    pub mode: u32,
    pub stamp: Stamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedKind {
    File { size: u64, content: Hash },
    Folder,
    Symlink { target: Vec<u8> },
}

/// What changes whenever a file does: as long as it is the same, the content need not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stamp {
    pub inode: u64,
    /// Nanoseconds since the epoch.
    pub modified: i64,
    pub changed: i64,
}

impl Store {
    /// Which of these contents are not in the store.
    pub async fn missing(&self, _contents: &[Hash]) -> Result<HashSet<Hash>, StoreError> {
        unimplemented!()
    }

    pub async fn put_contents(&self, _contents: Vec<(Hash, Vec<u8>)>) -> Result<(), StoreError> {
        unimplemented!()
    }

    pub async fn content(&self, _hash: &Hash) -> Result<Option<Vec<u8>>, StoreError> {
        unimplemented!()
    }

    /// Saves a checkpoint whose contents are all in the store. Then, while all contents together
    /// are larger than `most` bytes, removes the oldest checkpoints of any session, but never
    /// the one just saved.
    pub async fn save_checkpoint(
        &self,
        _session: &SessionId,
        _number: u32,
        _files: &[FileRecord],
        _most: u64,
    ) -> Result<(), StoreError> {
        unimplemented!()
    }

    /// `None` when there is none or it was removed to make room.
    pub async fn checkpoint(
        &self,
        _session: &SessionId,
        _number: u32,
    ) -> Result<Option<Vec<FileRecord>>, StoreError> {
        unimplemented!()
    }
}
