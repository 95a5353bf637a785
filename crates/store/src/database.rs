//! One SQLite file, with one connection that writes and two that read.
//!
//! Writes wait for each other here, instead of in SQLite where they would poll; reads never wait
//! for writes. Other processes may use the same file at the same time.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteConnectOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Sqlite, SqliteConnection};
use tokio::sync::{Mutex, MutexGuard, OnceCell, OwnedMutexGuard};

use crate::error::StoreError;
use crate::migration::{self, Schema};

/// How long to wait for another process that writes.
const PATIENCE: Duration = Duration::from_secs(10);

/// In KiB, for each connection. The operating system caches too.
const CACHE: &str = "-1024";

/// The log is cut back to this many bytes when it was longer.
const LOG_SIZE: &str = "4194304";

/// Opened at first use: who only appends never needs it.
type Reader = OnceCell<Mutex<SqliteConnection>>;

#[derive(Debug)]
pub(crate) struct Database {
    path: PathBuf,
    writer: Arc<Mutex<Writer>>,
    reader: Reader,
    slow_reader: Reader,
}

/// The connection for writing.
#[derive(Debug)]
pub(crate) struct Writer {
    connection: SqliteConnection,
    /// A transaction was begun and not ended.
    open: bool,
}

impl Database {
    /// Opens a database in the store's folder, and brings it up to date.
    pub(crate) async fn open(folder: &Path, schema: Schema) -> Result<Self, StoreError> {
        let path = folder.join(schema.file);
        let connection = migration::open(folder, &path, schema).await?;
        let writer = Writer {
            connection,
            open: false,
        };
        Ok(Self {
            path,
            writer: Arc::new(Mutex::new(writer)),
            reader: Reader::new(),
            slow_reader: Reader::new(),
        })
    }

    /// The connection for reading.
    pub(crate) async fn reader(&self) -> Result<MutexGuard<'_, SqliteConnection>, StoreError> {
        self.connected(&self.reader).await
    }

    /// Another connection for reading, for what may take longer, so that nothing short waits for
    /// it.
    pub(crate) async fn slow_reader(&self) -> Result<MutexGuard<'_, SqliteConnection>, StoreError> {
        self.connected(&self.slow_reader).await
    }

    async fn connected<'a>(
        &self,
        reader: &'a Reader,
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

    /// Begins to write. To be awaited inside of [`carry_out`].
    pub(crate) async fn begin(&self, what: &'static str) -> Result<Transaction, StoreError> {
        let writer = self.take().await.map_err(StoreError::database(what))?;
        Ok(Transaction { writer, what })
    }

    /// As [`Database::begin`], for who tells several callers of one failure.
    pub(crate) async fn take(&self) -> Result<OwnedMutexGuard<Writer>, sqlx::Error> {
        let mut writer = self.writer().await;
        // From here on, also if nobody is left to hear that it was begun.
        writer.open = true;
        let begun = execute(&mut writer.connection, "BEGIN IMMEDIATE").await;
        writer.open = begun.is_ok();
        begun.map(|()| writer)
    }

    /// Writes with statements that begin and commit a transaction themselves, all in one message
    /// to the connection's thread: each message costs two changes of thread. To be awaited
    /// inside of [`carry_out`].
    pub(crate) async fn write_at_once(
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
    async fn writer(&self) -> OwnedMutexGuard<Writer> {
        let mut writer = self.writer.clone().lock_owned().await;
        if writer.open {
            // Left behind by a task that was lost. It may also be over already: SQLite ends a
            // transaction by itself after some errors.
            let _ = execute(&mut writer.connection, "ROLLBACK").await;
            writer.open = false;
        }
        writer
    }

    /// Gives the pages of what was removed back to the file system, and empties the log.
    pub(crate) async fn shrink(&self) -> Result<(), StoreError> {
        const WHAT: &str = "free space";
        // Outside of any transaction: neither works in one that a lost task has left open.
        let mut writer = self.writer().await;
        execute(&mut writer.connection, "PRAGMA incremental_vacuum")
            .await
            .map_err(StoreError::database(WHAT))?;
        empty_log(&mut writer.connection)
            .await
            .map_err(StoreError::database(WHAT))
    }

    /// Puts everything into the main file and empties the log, so that the main file can be copied
    /// by itself when nobody has it open any more.
    pub(crate) async fn settle(&self) -> Result<(), StoreError> {
        let mut writer = self.writer().await;
        empty_log(&mut writer.connection)
            .await
            .map_err(StoreError::database("empty the log"))
    }
}

impl Writer {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }

    /// Commits if all went well, or else takes back what was written since [`Database::take`].
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

/// A write under way: all of it happens, or nothing. Nobody else writes meanwhile.
///
/// Not sqlx's own, which counts a transaction as open when SQLite has ended it, as it does when
/// the disk is full, and then refuses every later one.
#[derive(Debug)]
pub(crate) struct Transaction {
    writer: OwnedMutexGuard<Writer>,
    what: &'static str,
}

impl Transaction {
    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.writer.connection
    }

    /// Keeps what was written if it went well, takes it back if not. When this returns a value,
    /// it is on disk.
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

/// Carries work out to its end even if the caller stops waiting for it. A write that is dropped
/// half-way would keep every other process waiting, and nobody would know how it ended.
pub(crate) async fn carry_out<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T, StoreError>> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        // The runtime is going down.
        Err(_) => Err(StoreError::database(what)(sqlx::Error::WorkerCrashed)),
    }
}

/// What all connections have in common. The log (WAL) is not among it, because the file remembers
/// that it has one.
pub(crate) fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(PATIENCE)
        .foreign_keys(true)
        // An event that was acknowledged is on disk, also after a power cut.
        .synchronous(SqliteSynchronous::Full)
        .pragma("cache_size", CACHE)
        .pragma("journal_size_limit", LOG_SIZE)
        // Else a statement of many rows makes and removes a file.
        .pragma("temp_store", "MEMORY")
        // What is deleted is overwritten, except in whole pages, which `shrink` gives back.
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

/// Answers, and does not fail, when another process is reading: then it is done later.
async fn empty_log(connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
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
    use crate::migration::{CHECKPOINTS, JOBS, SESSIONS};

    #[tokio::test]
    async fn shrinking_ends_a_transaction_that_a_lost_task_has_left() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("locks")).unwrap();
        let database = Database::open(folder.path(), JOBS).await.unwrap();
        let mut writer = database.take().await.unwrap();
        execute(writer.connection(), "CREATE TABLE half_done (x)")
            .await
            .unwrap();
        // Its task is gone, and ended nothing.
        drop(writer);
        database.shrink().await.unwrap();
        let other = || async { options(&database.path).connect().await.unwrap() };
        let tables: i64 =
            sqlx::query_scalar("SELECT count(*) FROM sqlite_schema WHERE name = 'half_done'")
                .fetch_one(&mut other().await)
                .await
                .unwrap();
        assert_eq!(tables, 0);
        // Nothing keeps other connections from writing.
        execute(&mut other().await, "BEGIN IMMEDIATE")
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn a_commit_is_on_disk_when_it_returns() {
        for schema in [SESSIONS, CHECKPOINTS, JOBS] {
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
                // FULL: the log is synced at each commit.
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
