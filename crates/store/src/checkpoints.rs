//! Checkpoints: the files of a workspace and their contents. Each content is stored once.
//!
//! They have their own database, because they are large and short-lived, and the database of sessions stays
//! small. Never reads a workspace: the caller passes the files.

mod contents;
mod manifest;
mod pruning;
mod repair;
mod runs;

use protocol::SessionId;
use serde::{Deserialize, Serialize};
use sqlx::SqliteConnection;

use self::manifest::CheckpointKey;
use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::rows::nanoseconds;
use crate::store::SessionStore;

/// SHA-256 of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ContentHash(pub [u8; 32]);

/// One file of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Relative to the workspace. Bytes, because names need not be UTF-8.
    pub path: Vec<u8>,
    pub kind: RecordedKind,
    /// Permission bits.
    pub mode: u32,
    pub stamp: FileStamp,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum RecordedKind {
    File { size: u64, content: ContentHash },
    Folder,
    Symlink { target: Vec<u8> },
}

/// Changes whenever the file does. As long as it is the same, the content need not be read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileStamp {
    pub inode: u64,
    /// Nanoseconds since the epoch.
    pub modified: i64,
    pub changed: i64,
}

const SAVE_OPERATION: &str = "save a checkpoint";

impl SessionStore {
    /// Saves a checkpoint whose contents are all in the store. Then removes the oldest checkpoints of any
    /// session while the contents of all checkpoints, or all lists of files, are larger than `most` bytes
    /// together. Never removes the one just saved.
    pub async fn save_checkpoint(
        &self,
        session: &SessionId,
        number: u32,
        files: &[FileRecord],
        most: u64,
    ) -> Result<(), StoreError> {
        let store = self.clone();
        let place = CheckpointKey {
            session: session.to_string(),
            number,
        };
        let saved = nanoseconds(jiff::Timestamp::now());
        let manifest = manifest::encode(&place, files)?;
        let held = manifest::hashes(files);
        let session = session.clone();
        run_to_completion(SAVE_OPERATION, async move {
            let mut transaction = store.checkpoints_db().await?.begin(SAVE_OPERATION).await?;
            let connection = transaction.connection();
            let result = async {
                manifest::remove(connection, &place).await?;
                let missing = manifest::insert(connection, &place, saved, manifest, &held).await?;
                if missing > 0 {
                    return Err(StoreError::MissingContents {
                        session,
                        number,
                        count: missing,
                    });
                }
                pruning::prune(connection, most, &place).await?;
                contents::remove_unused(connection).await
            };
            let result = result.await;
            transaction.end(result).await
        })
        .await
    }

    /// `None` if it does not exist or was removed to free space.
    pub async fn checkpoint(
        &self,
        session: &SessionId,
        number: u32,
    ) -> Result<Option<Vec<FileRecord>>, StoreError> {
        let place = CheckpointKey {
            session: session.to_string(),
            number,
        };
        let mut reader = self.checkpoints_db().await?.reader().await?;
        manifest::read(&mut reader, &place).await
    }

    /// The numbers of a session's checkpoints, in ascending order.
    pub(crate) async fn checkpoint_numbers(
        &self,
        session: &SessionId,
    ) -> Result<Vec<u32>, StoreError> {
        let mut reader = self.checkpoints_db().await?.slow_reader().await?;
        manifest::numbers(&mut reader, session.as_str()).await
    }

    /// Copies a session's checkpoints up to a number to another session. They keep their times.
    pub(crate) async fn copy_checkpoints(
        &self,
        from: &SessionId,
        to: &SessionId,
        last: u32,
    ) -> Result<(), StoreError> {
        let store = self.clone();
        let (from, to) = (from.to_string(), to.to_string());
        run_to_completion(SAVE_OPERATION, async move {
            let mut transaction = store.checkpoints_db().await?.begin(SAVE_OPERATION).await?;
            let copied = copy_manifests(transaction.connection(), &from, &to, last).await;
            transaction.end(copied).await
        })
        .await
    }

    /// Removes all checkpoints of a session. Must be awaited inside [`run_to_completion`].
    pub(crate) async fn remove_checkpoints(&self, session: &SessionId) -> Result<(), StoreError> {
        let database = self.checkpoints_db().await?;
        let mut transaction = database.begin("remove checkpoints").await?;
        let removed = remove_session_checkpoints(transaction.connection(), session.as_str()).await;
        transaction.end(removed).await?;
        database.shrink().await
    }
}

async fn copy_manifests(
    connection: &mut SqliteConnection,
    from: &str,
    to: &str,
    last: u32,
) -> Result<(), StoreError> {
    for number in manifest::numbers(connection, from).await? {
        let source = CheckpointKey {
            session: from.to_owned(),
            number,
        };
        if number > last {
            break;
        }
        let Some((saved, manifest)) = manifest::read_encoded(connection, &source).await? else {
            continue;
        };
        let held = manifest::hashes(&manifest::decode(&source, &manifest)?);
        let target = CheckpointKey {
            session: to.to_owned(),
            number,
        };
        // May be left over from a failed fork of the same name.
        manifest::remove(connection, &target).await?;
        manifest::insert(connection, &target, saved, manifest, &held).await?;
    }
    Ok(())
}

async fn remove_session_checkpoints(
    connection: &mut SqliteConnection,
    session: &str,
) -> Result<(), StoreError> {
    for number in manifest::numbers(connection, session).await? {
        let place = CheckpointKey {
            session: session.to_owned(),
            number,
        };
        match manifest::remove(connection, &place).await {
            // A session can be deleted even if its checkpoints are damaged.
            Err(StoreError::DamagedCheckpoint { .. }) => {
                repair::remove_and_recount(connection, session).await?;
                break;
            }
            result => result?,
        }
    }
    contents::remove_unused(connection).await
}
