//! Opens a database file and migrates it to the current schema.
//!
//! The schema's version is SQLite's `user_version`. Each script in `migrations` leads from one version to the
//! next and is never changed after its release. There are no downgrades: a file of a newer release is left
//! unchanged.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use sqlx::{AssertSqlSafe, ConnectOptions, SqliteConnection};

use crate::database::{execute, opening, options};
use crate::error::StoreError;
use crate::{lock, store};

/// A database file and its migrations.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Schema {
    pub(crate) file: &'static str,
    /// The first one leads from an empty file to version 1.
    scripts: &'static [&'static str],
}

pub(crate) const SESSIONS_SCHEMA: Schema = Schema {
    file: "sessions.db",
    scripts: &[include_str!("../migrations/sessions/0001_sessions.sql")],
};

pub(crate) const CHECKPOINTS_SCHEMA: Schema = Schema {
    file: "checkpoints.db",
    scripts: &[include_str!(
        "../migrations/checkpoints/0001_checkpoints.sql"
    )],
};

pub(crate) const JOBS_SCHEMA: Schema = Schema {
    file: "jobs.db",
    scripts: &[
        include_str!("../migrations/jobs/0001_jobs.sql"),
        include_str!("../migrations/jobs/0002_parked.sql"),
        include_str!("../migrations/jobs/0003_deliveries.sql"),
    ],
};

pub(crate) async fn open(
    folder: &Path,
    path: &Path,
    schema: Schema,
) -> Result<SqliteConnection, StoreError> {
    create(path).map_err(opening(path))?;
    let mut connection = options(path).connect().await.map_err(opening(path))?;
    let found = schema_version(&mut connection)
        .await
        .map_err(opening(path))?;
    if !is_current(found, path, schema)? {
        let _lock = lock_migrations(folder).await.map_err(opening(path))?;
        set_file_pragmas(&mut connection)
            .await
            .map_err(opening(path))?;
        migrate(&mut connection, path, schema).await?;
    }
    Ok(connection)
}

/// Fails for a database of a newer release.
pub(crate) async fn check_version(
    connection: &mut SqliteConnection,
    path: &Path,
    schema: Schema,
) -> Result<(), StoreError> {
    let found = schema_version(connection).await.map_err(opening(path))?;
    is_current(found, path, schema).map(drop)
}

/// Creates the file with mode 0600. SQLite creates the files beside it with the same mode.
///
/// An existing file is not opened: closing it would release the locks that SQLite may have on it elsewhere in
/// this process.
pub(crate) fn create(path: &Path) -> io::Result<()> {
    let made = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    match made {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

fn is_current(found: i64, path: &Path, schema: Schema) -> Result<bool, StoreError> {
    match usize::try_from(found) {
        Ok(found) if found <= schema.scripts.len() => Ok(found == schema.scripts.len()),
        _ => Err(StoreError::Newer {
            path: path.to_owned(),
        }),
    }
}

async fn schema_version(connection: &mut SqliteConnection) -> Result<i64, sqlx::Error> {
    sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(connection)
        .await
}

/// Locks migrations: two processes that enable WAL at the same time would fail instead of waiting.
async fn lock_migrations(folder: &Path) -> io::Result<File> {
    let path = store::locks(folder).join("migration");
    let wait = move || {
        let file = lock::open(&path)?;
        file.lock()?;
        Ok(file)
    };
    tokio::task::spawn_blocking(wait)
        .await
        .map_err(io::Error::other)?
}

/// Sets the pragmas that are stored in the file and cannot be changed inside a transaction.
async fn set_file_pragmas(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    // Only takes effect in an empty file, and only before WAL is enabled.
    execute(connection, "PRAGMA auto_vacuum = INCREMENTAL").await?;
    execute(connection, "PRAGMA journal_mode = WAL").await
}

async fn migrate(
    connection: &mut SqliteConnection,
    path: &Path,
    schema: Schema,
) -> Result<(), StoreError> {
    execute(connection, "BEGIN IMMEDIATE")
        .await
        .map_err(opening(path))?;
    let result = run_scripts(connection, path, schema).await;
    match result {
        Ok(()) => execute(connection, "COMMIT").await.map_err(opening(path)),
        Err(error) => {
            let _ = execute(connection, "ROLLBACK").await;
            Err(error)
        }
    }
}

async fn run_scripts(
    connection: &mut SqliteConnection,
    path: &Path,
    schema: Schema,
) -> Result<(), StoreError> {
    // Another process may have migrated the file while this one waited.
    let found = schema_version(connection).await.map_err(opening(path))?;
    if is_current(found, path, schema)? {
        return Ok(());
    }
    let done = usize::try_from(found).unwrap_or(0);
    for script in &schema.scripts[done..] {
        sqlx::raw_sql(*script)
            .execute(&mut *connection)
            .await
            .map_err(opening(path))?;
    }
    let mark = format!("PRAGMA user_version = {}", schema.scripts.len());
    sqlx::raw_sql(AssertSqlSafe(mark))
        .execute(connection)
        .await
        .map_err(opening(path))?;
    Ok(())
}
