//! Copies the databases of a store that is in use. Entry point: [`backup`].
//!
//! Each copy is a consistent snapshot of its database, but they are taken one after the other. Jobs are
//! first, because a restored session may be ahead of its job's record, as after a crash, but must not be
//! behind it.

use std::path::Path;

use sqlx::{ConnectOptions, Connection, SqliteConnection};

use crate::database::{execute, opening, options};
use crate::error::StoreError;
use crate::migration::{
    CHECKPOINTS_SCHEMA, JOBS_SCHEMA, SESSIONS_SCHEMA, Schema, check_version, create,
};

/// Copies all databases of a store into another folder, which must have none of them. The store may be in
/// use by other processes, and they are not blocked.
pub async fn backup(folder: &Path, target: &Path) -> Result<(), StoreError> {
    for schema in [JOBS_SCHEMA, SESSIONS_SCHEMA, CHECKPOINTS_SCHEMA] {
        let path = folder.join(schema.file);
        if path.exists() {
            copy_database(&path, &target.join(schema.file), schema).await?;
        }
    }
    Ok(())
}

async fn copy_database(path: &Path, target: &Path, schema: Schema) -> Result<(), StoreError> {
    let mut source = options(path).connect().await.map_err(opening(path))?;
    // SQLite writes into an existing empty file and keeps its mode.
    create(target).map_err(opening(target))?;
    check_version(&mut source, path, schema).await?;
    sqlx::query("VACUUM INTO ?1")
        .bind(target.display().to_string())
        .execute(&mut source)
        .await
        .map_err(opening(target))?;
    source.close().await.map_err(opening(path))?;
    let mut made = options(target).connect().await.map_err(opening(target))?;
    enable_wal_and_check(&mut made)
        .await
        .map_err(opening(target))?;
    made.close().await.map_err(opening(target))
}

/// Enables WAL, which a copy does not inherit, and checks the copy. `quick_check` reads all pages.
async fn enable_wal_and_check(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    execute(connection, "PRAGMA journal_mode = WAL").await?;
    let said: String = sqlx::query_scalar("PRAGMA quick_check(1)")
        .fetch_one(&mut *connection)
        .await?;
    match said.as_str() {
        "ok" => Ok(()),
        _ => Err(sqlx::Error::Protocol(format!(
            "the copy is damaged: {said}"
        ))),
    }
}
