//! Contents of files, by hash.
//!
//! A content that no checkpoint holds is not removed at once: another process may have stored it, or have
//! learned that it exists, and be about to save a checkpoint with it. So the time of each lookup is stored,
//! and a content is removed only after a grace period without lookups. If it is removed too early
//! nevertheless, saving the checkpoint fails: a checkpoint never lacks a content.

use std::collections::HashSet;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sqlx::SqliteConnection;

use super::ContentHash;
use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::rows::{nanoseconds, signed};
use crate::store::SessionStore;

/// The maximum time from looking up contents to saving the checkpoint.
const UNUSED_GRACE_PERIOD: Duration = Duration::from_secs(10 * 60);

// Hashes are passed as a JSON list of hexadecimal numbers, so that one statement takes any number of them.
// The cost is in the returned rows, so the statement returns the missing hashes, which are few.
const SELECT_MISSING: &str = "
    SELECT unhex(value) FROM json_each(?1)
    WHERE NOT EXISTS (SELECT 1 FROM contents WHERE hash = unhex(value))";

// Only rows whose time is old enough: otherwise every checkpoint would write a row for every file.
const UPDATE_WANTED: &str = "
    UPDATE contents SET wanted = ?2
    WHERE hash IN (SELECT unhex(value) FROM json_each(?1)) AND wanted < ?3";

// Two statements in one message to the connection's thread. An existing content gets a new time, so that it
// is not removed before its checkpoint is saved.
const INSERT_CONTENT: &str = "
    INSERT INTO contents (hash, size, runs, wanted) VALUES (?1, ?2, 0, ?3)
    ON CONFLICT (hash) DO UPDATE SET wanted = excluded.wanted;
    INSERT INTO bytes (content, bytes) SELECT number, ?4 FROM contents WHERE hash = ?1
    ON CONFLICT DO NOTHING";

const SELECT_CONTENT: &str = "
    SELECT b.bytes FROM contents c JOIN bytes b ON b.content = c.number WHERE c.hash = ?1";

const CHANGE_RUNS: &str = "
    UPDATE contents SET runs = runs + ?2
    WHERE hash IN (SELECT unhex(value) FROM json_each(?1))";

const RESET_RUNS: &str = "UPDATE contents SET runs = 0 WHERE runs <> 0";

const DELETE_UNUSED: &str = "
    DELETE FROM bytes WHERE content IN
        (SELECT number FROM contents WHERE runs = 0 AND wanted < ?1);
    DELETE FROM contents WHERE runs = 0 AND wanted < ?1";

const FIND_OPERATION: &str = "look for contents";
const STORE_OPERATION: &str = "store contents";

impl SessionStore {
    /// Returns which of these contents are not in the store. The others are kept for the next minutes, so
    /// that a checkpoint can be saved with them.
    pub async fn missing(
        &self,
        contents: &[ContentHash],
    ) -> Result<HashSet<ContentHash>, StoreError> {
        let hashes = hex_json_list(contents);
        let store = self.clone();
        let missing = run_to_completion(FIND_OPERATION, async move {
            let mut transaction = store.checkpoints_db().await?.begin(FIND_OPERATION).await?;
            let missing = find_missing(transaction.connection(), &hashes).await;
            transaction
                .end(missing.map_err(StoreError::database(FIND_OPERATION)))
                .await
        });
        let hashes = missing
            .await?
            .into_iter()
            .filter_map(|hash| hash.try_into().ok());
        Ok(hashes.map(ContentHash).collect())
    }

    /// Stores contents that are not there yet. Their hashes are not checked here but when contents are read.
    pub async fn put_contents(
        &self,
        contents: Vec<(ContentHash, Vec<u8>)>,
    ) -> Result<(), StoreError> {
        let store = self.clone();
        run_to_completion(STORE_OPERATION, async move {
            let mut transaction = store.checkpoints_db().await?.begin(STORE_OPERATION).await?;
            let put = put(transaction.connection(), contents).await;
            transaction
                .end(put.map_err(StoreError::database(STORE_OPERATION)))
                .await
        })
        .await
    }

    pub async fn content(&self, hash: &ContentHash) -> Result<Option<Vec<u8>>, StoreError> {
        let bytes: Option<Vec<u8>> = {
            let mut reader = self.checkpoints_db().await?.reader().await?;
            sqlx::query_scalar(SELECT_CONTENT)
                .bind(&hash.0[..])
                .fetch_optional(&mut *reader)
                .await
                .map_err(StoreError::database("read a content"))?
        };
        match bytes {
            Some(bytes) if Sha256::digest(&bytes)[..] != hash.0 => {
                Err(StoreError::DamagedContent {
                    hash: hex::encode(hash.0),
                })
            }
            bytes => Ok(bytes),
        }
    }
}

/// Returns the missing contents, and renews the grace period of the others.
async fn find_missing(
    connection: &mut SqliteConnection,
    hashes: &str,
) -> Result<Vec<Vec<u8>>, sqlx::Error> {
    sqlx::query(UPDATE_WANTED)
        .bind(hashes)
        .bind(now())
        .bind(now() - duration_nanos(UNUSED_GRACE_PERIOD / 2))
        .execute(&mut *connection)
        .await?;
    sqlx::query_scalar(SELECT_MISSING)
        .bind(hashes)
        .fetch_all(connection)
        .await
}

async fn put(
    connection: &mut SqliteConnection,
    contents: Vec<(ContentHash, Vec<u8>)>,
) -> Result<(), sqlx::Error> {
    let now = now();
    for (hash, bytes) in contents {
        sqlx::query(INSERT_CONTENT)
            .bind(&hash.0[..])
            .bind(signed(bytes.len() as u64))
            .bind(now)
            .bind(bytes)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// Changes the run count of each content. Returns how many of the contents are missing.
pub(super) async fn change_runs(
    connection: &mut SqliteConnection,
    hashes: &[ContentHash],
    change: i64,
) -> Result<u64, StoreError> {
    if hashes.is_empty() {
        return Ok(0);
    }
    let changed = sqlx::query(CHANGE_RUNS)
        .bind(hex_json_list(hashes))
        .bind(change)
        .execute(connection)
        .await
        .map_err(StoreError::database(STORE_OPERATION))?;
    Ok((hashes.len() as u64).saturating_sub(changed.rows_affected()))
}

/// Sets all run counts to 0. They must be counted again in the same transaction.
pub(super) async fn reset_runs(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query(RESET_RUNS)
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database("count contents"))
}

/// Removes contents that no checkpoint holds and whose grace period is over.
pub(super) async fn remove_unused(connection: &mut SqliteConnection) -> Result<(), StoreError> {
    sqlx::query(DELETE_UNUSED)
        .bind(now() - duration_nanos(UNUSED_GRACE_PERIOD))
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database("remove contents"))
}

fn now() -> i64 {
    nanoseconds(jiff::Timestamp::now())
}

fn duration_nanos(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX)
}

/// Hashes as a JSON list.
fn hex_json_list<'a>(hashes: impl IntoIterator<Item = &'a ContentHash>) -> String {
    let mut list = String::from("[");
    for hash in hashes {
        if list.len() > 1 {
            list.push(',');
        }
        list.push('"');
        list.push_str(&hex::encode(hash.0));
        list.push('"');
    }
    list.push(']');
    list
}
