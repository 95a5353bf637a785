//! One SQLite file, with one connection for writing and two for reading.
//!
//! Writers of this process queue on a mutex, because SQLite would make them poll. Readers never wait for
//! writers. Other processes may use the same file at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard, OnceCell, OwnedMutexGuard};

use crate::error::StoreError;
use crate::migration::{self, Schema};

/// How long to wait for another process that is writing.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

/// In KiB, for each connection. The operating system caches too.
const CACHE_SIZE: &str = "-1024";

/// The WAL is truncated to this many bytes after it was longer.
const MAX_WAL_BYTES: &str = "4194304";

/// A connection for reading, opened on first use: a process that only appends never needs it.
type LazyReader = OnceCell<Mutex<SqliteConnection>>;

#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    writer: Arc<Mutex<WriteConnection>>,
    reader: LazyReader,
    slow_reader: LazyReader,
}

/// The connection for writing.
#[derive(Debug)]
pub(crate) struct WriteConnection {
    connection: SqliteConnection,
    /// Whether a transaction was begun and not ended.
    open: bool,
}

impl Database {
    /// Opens a database in the store's folder, and migrates it to the current schema.
    pub(crate) async fn open(folder: &Path, schema: Schema) -> Result<Self, StoreError> {
        let path = folder.join(schema.file);
        let connection = migration::open(folder, &path, schema).await?;
        let writer = WriteConnection {
            connection,
            open: false,
        };
        Ok(Self {
            path,
            writer: Arc::new(Mutex::new(writer)),
            reader: LazyReader::new(),
            slow_reader: LazyReader::new(),
        })
    }

    /// The connection for reading.
    pub(crate) async fn reader(&self) -> Result<MutexGuard<'_, SqliteConnection>, StoreError> {
        self.connected(&self.reader).await
    }

    /// A second connection for reading, for longer queries, so that short ones do not wait for them.
    pub(crate) async fn slow_reader(&self) -> Result<MutexGuard<'_, SqliteConnection>, StoreError> {
        self.connected(&self.slow_reader).await
    }

    async fn connected<'a>(
        &self,
        reader: &'a LazyReader,
    ) -> Result<MutexGuard<'a, SqliteConnection>, StoreError> {
        let open = async || {
            let connection = options(&self.path)
                .pragma("query_only", "ON")
                .connect()
                .await;
            connection.map(Mutex::new).map_err(opening(&self.path))
        };
        Ok(reader.get_or_try_init(open).await?.lock().await)
    }

    /// Begins a write transaction. Must be awaited inside [`run_to_completion`].
    pub(crate) async fn begin(&self, what: &'static str) -> Result<Transaction, StoreError> {
        let writer = self.take().await.map_err(StoreError::database(what))?;
        Ok(Transaction { writer, what })
    }

    /// Like [`Database::begin`], but returns the raw error, for a caller that reports it to several others.
    pub(crate) async fn take(&self) -> Result<OwnedMutexGuard<WriteConnection>, sqlx::Error> {
        let mut writer = self.writer().await;
        // Set before the statement runs: if this future is dropped, the transaction may have begun.
        writer.open = true;
        let begun = execute(&mut writer.connection, "BEGIN IMMEDIATE").await;
        writer.open = begun.is_ok();
        begun.map(|()| writer)
    }

    /// Runs statements that begin and commit a transaction themselves, in one message to the connection's
    /// thread: each message costs two thread switches. Must be awaited inside [`run_to_completion`].
    pub(crate) async fn execute_batch(
        &self,
        what: &'static str,
        statements: Query<'_, Sqlite, SqliteArguments>,
    ) -> Result<(), StoreError> {
        let mut writer = self.writer().await;
        writer.open = true;
        let written = statements.execute(&mut writer.connection).await;
        if written.is_err() {
            let _ = execute(&mut writer.connection, "ROLLBACK").await;
        }
        writer.open = false;
        written.map(drop).map_err(StoreError::database(what))
    }

    /// The connection for writing, with no transaction open.
    async fn writer(&self) -> OwnedMutexGuard<WriteConnection> {
        let mut writer = self.writer.clone().lock_owned().await;
        if writer.open {
            // A cancelled task left a transaction open. It may also have ended already: SQLite ends a
            // transaction by itself after some errors.
            let _ = execute(&mut writer.connection, "ROLLBACK").await;
            writer.open = false;
        }
        writer
    }

    /// Returns free pages to the file system and truncates the WAL.
    pub(crate) async fn shrink(&self) -> Result<(), StoreError> {
        const OPERATION: &str = "free space";
        // Neither statement works inside a transaction, such as one that a cancelled task left open.
        let mut writer = self.writer().await;
        execute(&mut writer.connection, "PRAGMA incremental_vacuum")
            .await
            .map_err(StoreError::database(OPERATION))?;
        truncate_wal(&mut writer.connection)
            .await
            .map_err(StoreError::database(OPERATION))
    }

    /// Moves everything into the main file and truncates the WAL, so that the main file alone can be copied
    /// once it is closed.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let mut writer = self.writer().await;
        truncate_wal(&mut writer.connection)
            .await
            .map_err(StoreError::database("empty the log"))
    }
}

impl WriteConnection {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Commits if the result is `Ok`, else rolls back.
    pub(crate) async fn end<T>(
        &mut self,
        result: Result<T, sqlx::Error>,
    ) -> Result<T, sqlx::Error> {
        let result = match result {
            Ok(value) => execute(&mut self.connection, "COMMIT")
                .await
                .map(|()| value),
            Err(error) => Err(error),
        };
        if result.is_err() {
            let _ = execute(&mut self.connection, "ROLLBACK").await;
        }
        self.open = false;
        result
    }
}

/// An exclusive write transaction.
///
/// sqlx's own is not used: SQLite ends a transaction itself when the disk is full, which sqlx does not
/// notice, and then refuses all later transactions.
#[derive(Debug)]
pub(crate) struct Transaction {
    writer: OwnedMutexGuard<WriteConnection>,
    what: &'static str,
}

impl Transaction {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.writer.connection
    }

    /// Commits if the result is `Ok`, else rolls back. When this returns `Ok`, the data is on disk.
    pub(crate) async fn end<T>(mut self, result: Result<T, StoreError>) -> Result<T, StoreError> {
        let connection = &mut self.writer.connection;
        let result = match result {
            Ok(value) => execute(connection, "COMMIT")
                .await
                .map(|()| value)
                .map_err(StoreError::database(self.what)),
            Err(error) => Err(error),
        };
        if result.is_err() {
            let _ = execute(connection, "ROLLBACK").await;
        }
        self.writer.open = false;
        result
    }
}

/// Runs a future to completion even if the caller is cancelled. A write that is dropped half-way would block
/// all other processes, and its result would be unknown.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is shutting down.
        Err(_) => Err(StoreError::database(what)(sqlx::Error::WorkerCrashed)),
    }
}

/// The options of all connections. WAL mode is not among them, because it is stored in the file.
pub(crate) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(BUSY_TIMEOUT)
        .foreign_keys(true)
        // An acknowledged event survives a power cut.
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", CACHE_SIZE)
        .pragma("journal_size_limit", MAX_WAL_BYTES)
        // Otherwise a statement with many rows creates and removes a temporary file.
        .pragma("temp_store", "MEMORY")
        // Deleted data is overwritten, except in whole free pages, which `shrink` returns to the file system.
        .pragma("secure_delete", "FAST")
        .thread_name(|_| "store".to_owned())
        .disable_statement_logging()
}

pub(crate) fn opening<E>(path: &Path) -> impl FnOnce(E) -> StoreError
where
    E: std::error::Error + Send + Sync + 'static,
{
    |source| StoreError::Open {
        path: path.to_owned(),
        source: Box::new(source),
    }
}

/// Succeeds even if another process is reading. Then the WAL is truncated later.
async fn truncate_wal(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
    execute(connection, "PRAGMA wal_checkpoint(TRUNCATE)").await
}

pub(crate) async fn execute(
    connection: &mut SqliteConnection,
    sql: &'static str,
) -> Result<(), sqlx::Error> {
    sqlx::query(sql).execute(connection).await.map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::migration::{CHECKPOINTS_SCHEMA, JOBS_SCHEMA, SESSIONS_SCHEMA};

    #[tokio::test]
    async fn shrinking_ends_a_transaction_that_a_lost_task_has_left() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("locks")).unwrap();
        let database = Database::open(folder.path(), JOBS_SCHEMA).await.unwrap();
        let mut writer = database.take().await.unwrap();
        execute(writer.connection(), "CREATE TABLE half_done (x)")
            .await
            .unwrap();
        // As if its task was cancelled before it ended the transaction.
        drop(writer);
        database.shrink().await.unwrap();
        let other = || async { options(&database.path).connect().await.unwrap() };
        let tables: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'half_done'")
                .fetch_one(&mut other().await)
                .await
                .unwrap();
        assert_eq!(tables, 0);
        // Other connections can write.
        execute(&mut other().await, "BEGIN IMMEDIATE")
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_commit_is_on_disk_when_it_returns() {
        for schema in [SESSIONS_SCHEMA, CHECKPOINTS_SCHEMA, JOBS_SCHEMA] {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir(folder.path().join("locks")).unwrap();
            let database = Database::open(folder.path(), schema).await.unwrap();
            let mut writer = database.writer.lock().await;
            let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
                .fetch_one(&mut writer.connection)
                .await
                .unwrap();
            assert_eq!(mode, "wal");
            for (pragma, expect) in [
                // FULL: the WAL is synced at each commit.
                ("PRAGMA synchronous", 2),
                ("PRAGMA foreign_keys", 1),
                ("PRAGMA auto_vacuum", 2),
                ("PRAGMA busy_timeout", 10_000),
            ] {
                let found: i64 = sqlx::query_scalar(pragma)
                    .fetch_one(&mut writer.connection)
                    .await
                    .unwrap();
                assert_eq!(found, expect, "{pragma}");
            }
        }
    }
}
