//! A checkpoint's list of files, as one blob, and its effect on the run counts of contents.
//!
//! Encoded with postcard: paths and hashes are bytes, which would be three to four times as long in JSON.
//! The format is not self-describing: a change of [`FileRecord`] needs a migration of `checkpoints.db`.

use std::collections::HashSet;

use sqlx::SqliteConnection;

use super::runs::runs_added;
use super::{ContentHash, FileRecord, RecordedKind, contents};
use crate::error::StoreError;

const SELECT_MANIFEST: &str = "
    SELECT saved, files FROM checkpoints WHERE session = ?1 AND number = ?2";

const SELECT_PREVIOUS: &str = "
    SELECT number FROM checkpoints WHERE session = ?1 AND number < ?2 ORDER BY number DESC LIMIT 1";

const SELECT_NEXT: &str = "
    SELECT number FROM checkpoints WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT 1";

const SELECT_NUMBERS: &str = "SELECT number FROM checkpoints WHERE session = ?1 ORDER BY number";

const INSERT_CHECKPOINT: &str = "
    INSERT INTO checkpoints (session, number, saved, size, files)
    VALUES (?1, ?2, ?3, length(?4), ?4)";

const DELETE_CHECKPOINT: &str = "DELETE FROM checkpoints WHERE session = ?1 AND number = ?2";

const OPERATION: &str = "read a checkpoint";

/// Identifies a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckpointKey {
    pub(super) session: String,
    pub(super) number: u32,
}

impl CheckpointKey {
    fn damaged_error(&self) -> impl FnOnce(postcard::Error) -> StoreError {
        |source| StoreError::DamagedCheckpoint {
            session: self.session.clone(),
            number: self.number,
            source,
        }
    }
}

pub(super) fn encode(place: &CheckpointKey, files: &[FileRecord]) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(files).map_err(place.damaged_error())
}

pub(super) fn decode(
    place: &CheckpointKey,
    manifest: &[u8],
) -> Result<Vec<FileRecord>, StoreError> {
    postcard::from_bytes(manifest).map_err(place.damaged_error())
}

pub(super) fn hashes(files: &[FileRecord]) -> HashSet<ContentHash> {
    let contents = files.iter().filter_map(|file| match file.kind {
        RecordedKind::File { content, .. } => Some(content),
        RecordedKind::Folder | RecordedKind::Symlink { .. } => None,
    });
    contents.collect()
}

pub(super) async fn read(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
) -> Result<Option<Vec<FileRecord>>, StoreError> {
    match read_encoded(connection, place).await? {
        Some((_, manifest)) => decode(place, &manifest).map(Some),
        None => Ok(None),
    }
}

/// The time at which a checkpoint was saved, and its encoded list of files.
pub(super) async fn read_encoded(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
    sqlx::query_as(SELECT_MANIFEST)
        .bind(&place.session)
        .bind(place.number)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database(OPERATION))
}

/// Numbers of a session's checkpoints, in ascending order.
pub(super) async fn numbers(
    connection: &mut SqliteConnection,
    session: &str,
) -> Result<Vec<u32>, StoreError> {
    sqlx::query_scalar(SELECT_NUMBERS)
        .bind(session)
        .fetch_all(connection)
        .await
        .map_err(StoreError::database(OPERATION))
}

/// Returns how many of its contents are not in the store. If any, the run counts are wrong and the
/// transaction must be rolled back.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
    saved: i64,
    manifest: Vec<u8>,
    held: &HashSet<ContentHash>,
) -> Result<u64, StoreError> {
    let added = runs_added_by(connection, place, held).await?;
    let missing = contents::change_runs(connection, &added, 1).await?;
    sqlx::query(INSERT_CHECKPOINT)
        .bind(&place.session)
        .bind(place.number)
        .bind(saved)
        .bind(manifest)
        .execute(connection)
        .await
        .map_err(StoreError::database("save a checkpoint"))?;
    Ok(missing)
}

/// Removes a checkpoint if it exists, but none of its contents.
pub(super) async fn remove(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
) -> Result<(), StoreError> {
    let Some(files) = read(connection, place).await? else {
        return Ok(());
    };
    let added = runs_added_by(connection, place, &hashes(&files)).await?;
    contents::change_runs(connection, &added, -1).await?;
    remove_row(connection, place).await
}

/// Removes a checkpoint without changing run counts.
pub(super) async fn remove_row(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
) -> Result<(), StoreError> {
    sqlx::query(DELETE_CHECKPOINT)
        .bind(&place.session)
        .bind(place.number)
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database("remove a checkpoint"))
}

async fn runs_added_by(
    connection: &mut SqliteConnection,
    place: &CheckpointKey,
    held: &HashSet<ContentHash>,
) -> Result<Vec<ContentHash>, StoreError> {
    let before = neighbour_hashes(connection, SELECT_PREVIOUS, place).await?;
    let after = neighbour_hashes(connection, SELECT_NEXT, place).await?;
    Ok(runs_added(before.as_ref(), held, after.as_ref()))
}

async fn neighbour_hashes(
    connection: &mut SqliteConnection,
    sql: &'static str,
    place: &CheckpointKey,
) -> Result<Option<HashSet<ContentHash>>, StoreError> {
    let number: Option<u32> = sqlx::query_scalar(sql)
        .bind(&place.session)
        .bind(place.number)
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    let Some(number) = number else {
        return Ok(None);
    };
    let place = CheckpointKey {
        session: place.session.clone(),
        number,
    };
    let files = read(connection, &place).await?;
    Ok(files.map(|files| hashes(&files)))
}
