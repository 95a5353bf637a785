//! Reads of single jobs, the most frequent query. Concurrent reads are answered by one statement, because
//! each message to a connection costs two thread switches, far more than a row.
//!
//! The answer was true at some time after the request. Entry point: [`JobStore::job`].

use std::sync::{Arc, LazyLock};

use protocol::job::{Job, JobId};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;
use tokio::sync::oneshot;

use super::batch_queue::BatchWorker;
use super::record::{bytes, job, job_columns, read_uuid};
use super::{JobStore, JobStoreInner};
use crate::error::StoreError;

/// Statements for 1, up to 8 and up to 64 jobs.
static SELECTS_BY_SIZE: LazyLock<[(usize, String); 3]> =
    LazyLock::new(|| [1, 8, 64].map(|count| (count, select_statement(count))));

const SELECT_JOB: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ?1");

const OPERATION: &str = "read a job";

/// A queued read with the channel to its caller.
pub(super) struct QueuedRead {
    id: JobId,
    caller: oneshot::Sender<Result<Option<Job>, StoreError>>,
}

impl JobStore {
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let (caller, told) = oneshot::channel();
        if let Some(shift) = self.inner.reads.join(QueuedRead { id, caller }) {
            tokio::spawn(answer_batches(self.inner.clone(), shift));
        }
        match told.await {
            Ok(found) => found,
            // The batch failed. A separate read returns the error.
            Err(_) => {
                self.one(OPERATION, sqlx::query(SELECT_JOB).bind(bytes(&id.0)))
                    .await
            }
        }
    }
}

async fn answer_batches(inner: Arc<JobStoreInner>, mut shift: BatchWorker<QueuedRead>) {
    let (most, _) = &SELECTS_BY_SIZE[SELECTS_BY_SIZE.len() - 1];
    while let Some(mut batch) = shift.next(*most) {
        batch.retain(|asking| !asking.caller.is_closed());
        let Ok(rows) = fetch_batch(&inner, &batch).await else {
            continue;
        };
        for asking in batch {
            let found = rows.iter().find(|(id, _)| *id == asking.id);
            let found = found.map(|(_, row)| job(OPERATION, row)).transpose();
            // The caller may have stopped waiting.
            let _ = asking.caller.send(found);
        }
    }
}

async fn fetch_batch(
    inner: &JobStoreInner,
    batch: &[QueuedRead],
) -> Result<Vec<(JobId, SqliteRow)>, StoreError> {
    let mut reader = inner.database.reader().await?;
    let fits = |(count, _): &&(usize, String)| batch.len() <= *count;
    let (_, sql) = SELECTS_BY_SIZE
        .iter()
        .find(fits)
        .expect("no batch is larger");
    // Unbound parameters are NULL, which matches no id.
    let query = batch
        .iter()
        .fold(sqlx::query(AssertSqlSafe(sql.as_str())), |query, asking| {
            query.bind(bytes(&asking.id.0))
        });
    let rows = query
        .fetch_all(&mut *reader)
        .await
        .map_err(StoreError::database(OPERATION))?;
    let named = rows
        .into_iter()
        .map(|row| Ok((JobId(read_uuid(&row, 0)?), row)));
    let named = named.collect::<Result<_, _>>();
    named.map_err(StoreError::database(OPERATION))
}

fn select_statement(count: usize) -> String {
    let ids = vec!["?"; count].join(", ");
    format!("SELECT {} FROM jobs WHERE id IN ({ids})", job_columns!())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [(SELECT_JOB, "(id=?)"), (&SELECTS_BY_SIZE[2].1, "(id=?)")] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
