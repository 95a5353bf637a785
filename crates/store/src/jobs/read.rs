//! Reads of single jobs, the most frequent query. Concurrent reads are answered by one statement, because
//! each message to a connection costs two thread switches, far more than a row.
//!
//! The answer was true at some time after the request. Entry point: [`Jobs::job`].

use std::sync::{Arc, LazyLock};

use protocol::job::{Job, JobId};
use sqlx::AssertSqlSafe;
use sqlx::sqlite::SqliteRow;
use tokio::sync::oneshot;

use super::line::Shift;
use super::record::{bytes, job, job_columns, uuid};
use super::{Inner, Jobs};
use crate::error::StoreError;

/// Statements for 1, up to 8 and up to 64 jobs.
static SELECTS: LazyLock<[(usize, String); 3]> =
    LazyLock::new(|| [1, 8, 64].map(|count| (count, select(count))));

const ONE: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE id = ?1");

const WHAT: &str = "read a job";

/// A queued read with the channel to its caller.
pub(super) struct Asking {
    id: JobId,
    caller: oneshot::Sender<Result<Option<Job>, StoreError>>,
}

impl Jobs {
    pub async fn job(&self, id: JobId) -> Result<Option<Job>, StoreError> {
        let (caller, told) = oneshot::channel();
        if let Some(shift) = self.inner.reads.join(Asking { id, caller }) {
            tokio::spawn(serve(self.inner.clone(), shift));
        }
        match told.await {
            Ok(found) => found,
            // The batch failed. A separate read returns the error.
            Err(_) => self.one(WHAT, sqlx::query(ONE).bind(bytes(&id.0))).await,
        }
    }
}

async fn serve(inner: Arc<Inner>, mut shift: Shift<Asking>) {
    let (most, _) = &SELECTS[SELECTS.len() - 1];
    while let Some(mut batch) = shift.next(*most) {
        batch.retain(|asking| !asking.caller.is_closed());
        let Ok(rows) = look_up(&inner, &batch).await else {
            continue;
        };
        for asking in batch {
            let found = rows.iter().find(|(id, _)| *id == asking.id);
            let found = found.map(|(_, row)| job(WHAT, row)).transpose();
            // The caller may have stopped waiting.
            let _ = asking.caller.send(found);
        }
    }
}

async fn look_up(inner: &Inner, batch: &[Asking]) -> Result<Vec<(JobId, SqliteRow)>, StoreError> {
    let mut reader = inner.database.reader().await?;
    let fits = |(count, _): &&(usize, String)| batch.len() <= *count;
    let (_, sql) = SELECTS.iter().find(fits).expect("no batch is larger");
    // Unbound parameters are NULL, which matches no id.
    let query = batch
        .iter()
        .fold(sqlx::query(AssertSqlSafe(sql.as_str())), |query, asking| {
            query.bind(bytes(&asking.id.0))
        });
    let rows = query
        .fetch_all(&mut *reader)
        .await
        .map_err(StoreError::database(WHAT))?;
    let named = rows.into_iter().map(|row| Ok((JobId(uuid(&row, 0)?), row)));
    let named = named.collect::<Result<_, _>>();
    named.map_err(StoreError::database(WHAT))
}

fn select(count: usize) -> String {
    let ids = vec!["?"; count].join(", ");
    format!("SELECT {} FROM jobs WHERE id IN ({ids})", job_columns!())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [(ONE, "(id=?)"), (&SELECTS[2].1, "(id=?)")] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
