//! Schedules new jobs. A request that is sent twice with the same idempotency key makes only one job.

use std::collections::HashMap;
use std::sync::LazyLock;

use protocol::job::{Job, JobId};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Row, Sqlite, SqliteConnection};

use super::record::{JobColumns, bytes, read_uuid, request, time};
use super::{IdempotencyKey, JobStore, ScheduleResult};
use crate::error::StoreError;
use crate::rows::{nanoseconds, signed};

const INSERT_INTO: &str = "
    INSERT INTO jobs (id, owner, status, epoch, revision, created, started, ended, ran_millis,
        session, messages, crashes, artifact_bytes, idempotency_key, fingerprint, state, spending,
        artifact, request, task, result, place)";

const COLUMN_COUNT: usize = 21;

// The place is after all of the owner's jobs that have not ended. Jobs that are written by one statement get
// the same place and are ordered by their ids.
const SELECT_VALUES: &str = "
    SELECT column1, column2, column3, column4, column5, column6, column7, column8, column9,
        column10, column11, column12, column13, column14, column15, column16, column17, column18,
        column19, column20, column21,
        iif(column3 IN ('pending', 'running'), (SELECT coalesce(max(place), 0) + 1 FROM jobs
            WHERE owner = column2 AND place IS NOT NULL), NULL)";

/// Statements for 1, up to 8 and up to 64 jobs. Rows that are not needed are left unbound.
static INSERTS_BY_SIZE: LazyLock<[(usize, String); 3]> =
    LazyLock::new(|| [1, 8, 64].map(|count| (count, insert_statement(count))));

const SELECT_BY_KEY: &str = "
    SELECT id, fingerprint FROM jobs WHERE owner = ?1 AND idempotency_key = ?2";

impl JobStore {
    /// Stores a new job. When this returns, it is on disk.
    pub async fn schedule(
        &self,
        job: Job,
        key: Option<IdempotencyKey>,
    ) -> Result<ScheduleResult, StoreError> {
        let id = job.id;
        let new = NewJob {
            written: JobColumns::of(&job)?,
            request: request(id, &job.request)?,
            job,
            key,
        };
        match self.insert(new).await? {
            InsertResult::Scheduled(scheduled) => Ok(scheduled),
            InsertResult::Exists => Err(StoreError::JobExists(id)),
        }
    }
}

pub(super) struct NewJob {
    job: Job,
    key: Option<IdempotencyKey>,
    written: JobColumns,
    /// As JSON, without the task.
    request: String,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum InsertResult {
    Scheduled(ScheduleResult),
    /// A job with that id already exists.
    Exists,
}

/// Writes new jobs. The results are in the same order.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    jobs: &[&NewJob],
) -> Result<Vec<InsertResult>, sqlx::Error> {
    let (most, _) = &INSERTS_BY_SIZE[INSERTS_BY_SIZE.len() - 1];
    let mut outcomes = Vec::with_capacity(jobs.len());
    for jobs in jobs.chunks(*most) {
        // How often each id was inserted: of two jobs with the same id, the first one was.
        let mut new: HashMap<JobId, usize> = HashMap::new();
        for row in bound_statement(jobs).fetch_all(&mut *connection).await? {
            *new.entry(JobId(read_uuid(&row, 0)?)).or_default() += 1;
        }
        for job in jobs {
            outcomes.push(match new.get_mut(&job.job.id) {
                Some(count) if *count > 0 => {
                    *count -= 1;
                    InsertResult::Scheduled(ScheduleResult::New)
                }
                _ => find_existing(connection, job).await?,
            });
        }
    }
    Ok(outcomes)
}

fn insert_statement(count: usize) -> String {
    let row = format!("({})", vec!["?"; COLUMN_COUNT].join(", "));
    let rows = vec![row; count].join(", ");
    format!(
        "{INSERT_INTO} {SELECT_VALUES} FROM (VALUES {rows}) WHERE column1 IS NOT NULL
         ON CONFLICT DO NOTHING RETURNING id"
    )
}

/// Unbound parameters are NULL.
fn bound_statement<'q>(jobs: &[&'q NewJob]) -> Query<'q, Sqlite, SqliteArguments> {
    let fits = |(count, _): &&(usize, String)| jobs.len() <= *count;
    let (_, sql) = INSERTS_BY_SIZE
        .iter()
        .find(fits)
        .expect("no chunk is larger");
    let query = sqlx::query(AssertSqlSafe(sql.as_str()));
    jobs.iter().fold(query, |query, job| job.bind(query))
}

impl NewJob {
    /// In the order of [`INSERT_INTO`].
    fn bind<'q>(
        &'q self,
        query: Query<'q, Sqlite, SqliteArguments>,
    ) -> Query<'q, Sqlite, SqliteArguments> {
        let Self {
            job, key, written, ..
        } = self;
        query
            .bind(bytes(&job.id.0))
            .bind(&job.owner)
            .bind(written.status)
            .bind(job.epoch)
            .bind(signed(job.revision))
            .bind(nanoseconds(job.created))
            .bind(time(job.started))
            .bind(time(job.ended))
            .bind(signed(job.ran_millis))
            .bind(job.session.as_ref().map(|session| session.as_str()))
            .bind(job.messages)
            .bind(job.crashes)
            .bind(job.artifact.as_ref().map(|artifact| signed(artifact.bytes)))
            .bind(key.as_ref().map(|key| &key.key))
            .bind(key.as_ref().map(|key| &key.fingerprint[..]))
            .bind(&written.state)
            .bind(&written.spending)
            .bind(&written.artifact)
            .bind(&self.request)
            .bind(&job.request.task)
            .bind(&job.answer)
    }
}

/// Finds the existing job with the key of a job that was not inserted.
async fn find_existing(
    connection: &mut SqliteConnection,
    new: &NewJob,
) -> Result<InsertResult, sqlx::Error> {
    let Some(key) = &new.key else {
        return Ok(InsertResult::Exists);
    };
    let row = sqlx::query(SELECT_BY_KEY)
        .bind(&new.job.owner)
        .bind(&key.key)
        .fetch_optional(connection)
        .await?;
    let Some(row) = row else {
        return Ok(InsertResult::Exists);
    };
    let job = JobId(read_uuid(&row, 0)?);
    let fingerprint: &[u8] = row.try_get(1)?;
    Ok(InsertResult::Scheduled(if fingerprint == key.fingerprint {
        ScheduleResult::Before(job)
    } else {
        ScheduleResult::KeyTaken(job)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [(
            SELECT_BY_KEY,
            "INDEX jobs_by_key (owner=? AND idempotency_key=?)",
        )] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
