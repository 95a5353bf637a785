//! A checkpoint's list of files, as one blob, and its effect on the run counts of contents.
//!
//! Encoded with postcard: paths and hashes are bytes, which would be three to four times as long in JSON.
//! The format is not self-describing: a change of [`FileRecord`] needs a migration of `checkpoints.db`.

use std::collections::HashSet;

use sqlx::SqliteConnection;

use super::runs::runs_added;
use super::{FileRecord, Hash, RecordedKind, contents};
use crate::error::StoreError;

const READ: &str = "
    SELECT saved, files FROM checkpoints WHERE session = ?1 AND number = ?2";

const BEFORE: &str = "
    SELECT number FROM checkpoints WHERE session = ?1 AND number < ?2 ORDER BY number DESC LIMIT 1";

const AFTER: &str = "
    SELECT number FROM checkpoints WHERE session = ?1 AND number > ?2 ORDER BY number LIMIT 1";

const NUMBERS: &str = "SELECT number FROM checkpoints WHERE session = ?1 ORDER BY number";

const INSERT: &str = "
    INSERT INTO checkpoints (session, number, saved, size, files)
    VALUES (?1, ?2, ?3, length(?4), ?4)";

const REMOVE: &str = "DELETE FROM checkpoints WHERE session = ?1 AND number = ?2";

const WHAT: &str = "read a checkpoint";

/// Identifies a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) session: String,
    pub(super) number: u32,
}

impl Place {
    fn damaged(&self) -> impl FnOnce(postcard::Error) -> StoreError {
        |source| StoreError::DamagedCheckpoint {
            session: self.session.clone(),
            number: self.number,
            source,
        }
    }
}

pub(super) fn encode(place: &Place, files: &[FileRecord]) -> Result<Vec<u8>, StoreError> {
    postcard::to_stdvec(files).map_err(place.damaged())
}

pub(super) fn decode(place: &Place, manifest: &[u8]) -> Result<Vec<FileRecord>, StoreError> {
    postcard::from_bytes(manifest).map_err(place.damaged())
}

pub(super) fn hashes(files: &[FileRecord]) -> HashSet<Hash> {
    let contents = files.iter().filter_map(|file| match file.kind {
        RecordedKind::File { content, .. } => Some(content),
        RecordedKind::Folder | RecordedKind::Symlink { .. } => None,
    });
    contents.collect()
}

pub(super) async fn read(
    connection: &mut SqliteConnection,
    place: &Place,
) -> Result<Option<Vec<FileRecord>>, StoreError> {
    match copy_of(connection, place).await? {
        Some((_, manifest)) => decode(place, &manifest).map(Some),
        None => Ok(None),
    }
}

/// The time at which a checkpoint was saved, and its encoded list of files.
pub(super) async fn copy_of(
    connection: &mut SqliteConnection,
    place: &Place,
) -> Result<Option<(i64, Vec<u8>)>, StoreError> {
    sqlx::query_as(READ)
        .bind(&place.session)
        .bind(place.number)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database(WHAT))
}

/// Numbers of a session's checkpoints, in ascending order.
pub(super) async fn numbers(
    connection: &mut SqliteConnection,
    session: &str,
) -> Result<Vec<u32>, StoreError> {
    sqlx::query_scalar(NUMBERS)
        .bind(session)
        .fetch_all(connection)
        .await
        .map_err(StoreError::database(WHAT))
}

/// Returns how many of its contents are not in the store. If any, the run counts are wrong and the
/// transaction must be rolled back.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    place: &Place,
    saved: i64,
    manifest: Vec<u8>,
    held: &HashSet<Hash>,
) -> Result<u64, StoreError> {
    let added = added_by(connection, place, held).await?;
    let missing = contents::change_runs(connection, &added, 1).await?;
    sqlx::query(INSERT)
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
    place: &Place,
) -> Result<(), StoreError> {
    let Some(files) = read(connection, place).await? else {
        return Ok(());
    };
    let added = added_by(connection, place, &hashes(&files)).await?;
    contents::change_runs(connection, &added, -1).await?;
    remove_row(connection, place).await
}

/// Removes a checkpoint without changing run counts.
pub(super) async fn remove_row(
    connection: &mut SqliteConnection,
    place: &Place,
) -> Result<(), StoreError> {
    sqlx::query(REMOVE)
        .bind(&place.session)
        .bind(place.number)
        .execute(connection)
        .await
        .map(drop)
        .map_err(StoreError::database("remove a checkpoint"))
}

async fn added_by(
    connection: &mut SqliteConnection,
    place: &Place,
    held: &HashSet<Hash>,
) -> Result<Vec<Hash>, StoreError> {
    let before = neighbour(connection, BEFORE, place).await?;
    let after = neighbour(connection, AFTER, place).await?;
    Ok(runs_added(before.as_ref(), held, after.as_ref()))
}

async fn neighbour(
    connection: &mut SqliteConnection,
    sql: &'static str,
    place: &Place,
) -> Result<Option<HashSet<Hash>>, StoreError> {
    let number: Option<u32> = sqlx::query_scalar(sql)
        .bind(&place.session)
        .bind(place.number)
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database(WHAT))?;
    let Some(number) = number else {
        return Ok(None);
    };
    let place = Place {
        session: place.session.clone(),
        number,
    };
    let files = read(connection, &place).await?;
    Ok(files.map(|files| hashes(&files)))
}
