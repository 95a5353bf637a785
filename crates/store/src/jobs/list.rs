//! Lists of jobs by owner, status, words and age; the next job in the queue; counts.
//!
//! Every query uses an index, so that a large number of ended jobs does not slow it down.

use protocol::SessionId;
use protocol::job::{Job, JobId};
use sqlx::query::Query;
use sqlx::sqlite::{SqliteArguments, SqliteRow};
use sqlx::{QueryBuilder, Row, Sqlite};

use super::record::{bytes, job, job_columns, status};
use super::{JobMessage, JobQuery, JobStore, OwnerLoad};
use crate::error::StoreError;
use crate::rows::{time_of, unsigned};
use crate::search::quote_words;
use crate::sessions::limit;

const SELECT_BY_SESSION: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE session = ?1");

const SELECT_JOBS: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE TRUE");

// Starts from the matching words, so that it does not scan all jobs.
const SELECT_JOBS_WITH_WORDS: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM (SELECT rowid AS found FROM words WHERE words MATCH "
);

const SELECT_OLDEST_QUEUED: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE owner = ?1 AND place IS NOT NULL AND status = 'pending'
    ORDER BY place, id LIMIT 1"
);

const SELECT_LOADS: &str = "
    SELECT owner, count(*) FILTER (WHERE status = 'pending'),
        count(*) FILTER (WHERE status = 'running')
    FROM jobs WHERE place IS NOT NULL GROUP BY owner";

const SELECT_CLAIMED: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE status = 'running' ORDER BY id"
);

const SELECT_LONGEST_ENDED: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE place IS NULL ORDER BY ended, id LIMIT ?1"
);

const SELECT_ARTIFACT_BYTES: &str = "
    SELECT coalesce(sum(artifact_bytes), 0) FROM jobs WHERE artifact_bytes IS NOT NULL";

const SELECT_MESSAGES: &str = "
    SELECT 1, task, created FROM jobs WHERE id = ?1 AND ?2 <= 1
    UNION ALL
    SELECT * FROM (
        SELECT m.number, m.text, m.time FROM jobs j JOIN messages m ON m.job = j.number
        WHERE j.id = ?1 AND m.number >= ?2 ORDER BY m.number)";

const LIST_OPERATION: &str = "list jobs";

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

impl JobStore {
    /// The job that a session belongs to.
    pub async fn job_of_session(&self, session: &SessionId) -> Result<Option<Job>, StoreError> {
        const WHAT: &str = "read a job";
        let statement = sqlx::query(SELECT_BY_SESSION).bind(session.as_str());
        self.one(WHAT, statement).await
    }

    pub async fn list(&self, query: &JobQuery) -> Result<Vec<Job>, StoreError> {
        match list_statement(query) {
            Some(mut builder) => self.all(LIST_OPERATION, builder.build()).await,
            None => Ok(Vec::new()),
        }
    }

    /// The queued job of this user that has waited longest. A job that was claimed and put back has kept its
    /// place.
    pub async fn oldest_queued(&self, owner: &str) -> Result<Option<Job>, StoreError> {
        const WHAT: &str = "find the next job";
        self.one(WHAT, sqlx::query(SELECT_OLDEST_QUEUED).bind(owner))
            .await
    }

    /// All users with jobs that have not ended.
    pub async fn loads(&self) -> Result<Vec<OwnerLoad>, StoreError> {
        const WHAT: &str = "count jobs";
        let rows = self.rows(WHAT, sqlx::query(SELECT_LOADS)).await?;
        let load = |row: &SqliteRow| {
            Ok(OwnerLoad {
                owner: row.try_get(0)?,
                queued: unsigned(row.try_get(1)?),
                running: unsigned(row.try_get(2)?),
            })
        };
        let loads = rows.iter().map(load).collect::<Result<_, _>>();
        loads.map_err(StoreError::database(WHAT))
    }

    /// All jobs that a worker runs, or ran when the server died.
    pub async fn claimed(&self) -> Result<Vec<Job>, StoreError> {
        self.all(LIST_OPERATION, sqlx::query(SELECT_CLAIMED)).await
    }

    /// Ended jobs, the longest ended first.
    pub async fn longest_ended(&self, limit: u32) -> Result<Vec<Job>, StoreError> {
        let statement = sqlx::query(SELECT_LONGEST_ENDED).bind(limit);
        self.all(LIST_OPERATION, statement).await
    }

    /// The size of all published artifacts.
    pub async fn artifact_bytes(&self) -> Result<u64, StoreError> {
        const WHAT: &str = "count artifacts";
        let rows = self.rows(WHAT, sqlx::query(SELECT_ARTIFACT_BYTES)).await?;
        let sum = rows.first().map_or(Ok(0), |row| row.try_get(0));
        sum.map(unsigned).map_err(StoreError::database(WHAT))
    }

    /// Messages with this number and later ones, in order.
    pub async fn messages(&self, job: JobId, from: u32) -> Result<Vec<JobMessage>, StoreError> {
        const WHAT: &str = "read messages";
        let statement = sqlx::query(SELECT_MESSAGES).bind(bytes(&job.0)).bind(from);
        let rows = self.rows(WHAT, statement).await?;
        let message = |row: &SqliteRow| {
            Ok(JobMessage {
                number: row.try_get(0)?,
                text: row.try_get(1)?,
                time: time_of(row.try_get(2)?),
            })
        };
        let messages = rows.iter().map(message).collect::<Result<_, _>>();
        messages.map_err(StoreError::database(WHAT))
    }

    pub(super) async fn one(
        &self,
        what: &'static str,
        statement: Statement<'_>,
    ) -> Result<Option<Job>, StoreError> {
        let row = {
            let mut reader = self.inner.database.reader().await?;
            statement.fetch_optional(&mut *reader).await
        };
        let row = row.map_err(StoreError::database(what))?;
        row.map(|row| job(what, &row)).transpose()
    }

    async fn all(
        &self,
        what: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<Job>, StoreError> {
        let rows = self.rows(what, statement).await?;
        rows.iter().map(|row| job(what, row)).collect()
    }

    pub(super) async fn rows(
        &self,
        what: &'static str,
        statement: Statement<'_>,
    ) -> Result<Vec<SqliteRow>, StoreError> {
        let mut reader = self.inner.database.slow_reader().await?;
        let rows = statement.fetch_all(&mut *reader).await;
        rows.map_err(StoreError::database(what))
    }
}

/// The statement for a list; `None` if nothing can match.
fn list_statement(query: &JobQuery) -> Option<QueryBuilder<Sqlite>> {
    let words = query.words.as_deref().map(str::trim);
    let mut builder = match words.filter(|words| !words.is_empty()) {
        None => QueryBuilder::new(SELECT_JOBS),
        Some(words) => {
            let words = quote_words(words);
            if words.is_empty() {
                return None;
            }
            let mut builder = QueryBuilder::new(SELECT_JOBS_WITH_WORDS);
            builder.push_bind(words.join(" AND "));
            builder.push(") CROSS JOIN jobs ON jobs.number = found WHERE TRUE");
            builder
        }
    };
    if let Some(owner) = &query.owner {
        builder.push(" AND owner = ").push_bind(owner.clone());
    }
    if let Some(wanted) = query.status {
        builder.push(" AND status = ").push_bind(status(wanted));
    }
    if let Some(before) = query.before {
        builder
            .push(" AND id < ")
            .push_bind(before.0.as_bytes().to_vec());
    }
    builder
        .push(" ORDER BY id DESC LIMIT ")
        .push_bind(limit(query.limit.into()));
    Some(builder)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use protocol::job::Status;

    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn lists_are_read_off_an_index() {
        let owner = Some("somebody".to_owned());
        for (sql, expect) in [
            (
                SELECT_BY_SESSION,
                "SEARCH jobs USING INDEX jobs_of_session (session=?)",
            ),
            (
                SELECT_OLDEST_QUEUED,
                "SEARCH jobs USING INDEX jobs_in_line (owner=? AND place>?)",
            ),
            (SELECT_LOADS, "SCAN jobs USING COVERING INDEX jobs_in_line"),
            (
                SELECT_CLAIMED,
                "SEARCH jobs USING INDEX jobs_of_status (status=?)",
            ),
            (SELECT_LONGEST_ENDED, "SCAN jobs USING INDEX jobs_by_end"),
            (
                SELECT_ARTIFACT_BYTES,
                "SEARCH jobs USING COVERING INDEX jobs_with_artifact",
            ),
            (
                SELECT_MESSAGES,
                "SEARCH m USING PRIMARY KEY (job=? AND number>?)",
            ),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
        for before in [None, Some(JobId(uuid::Uuid::nil()))] {
            let and = before.map_or("", |_| " AND id<?");
            let alone = before.map_or("SCAN jobs USING", |_| "SEARCH jobs USING");
            for (owner, status, expect) in [
                (None, None, format!("{alone} INDEX sqlite_autoindex_jobs_1")),
                (
                    owner.clone(),
                    None,
                    format!("INDEX jobs_of_owner (owner=?{and})"),
                ),
                (
                    None,
                    Some(Status::Pending),
                    format!("INDEX jobs_of_status (status=?{and})"),
                ),
                (
                    owner.clone(),
                    Some(Status::Error),
                    format!("INDEX jobs_of_owner_and_status (owner=? AND status=?{and})"),
                ),
            ] {
                let mut query = JobQuery {
                    owner,
                    status,
                    before,
                    ..JobQuery::default()
                };
                let sql = list_statement(&query).unwrap().sql().as_str().to_owned();
                let found = plan(&sql).await;
                assert!(found.contains(&expect), "{sql}\n{found}");
                assert!(!found.contains("USE TEMP B-TREE"), "{sql}\n{found}");

                query.words = Some("words".into());
                let sql = list_statement(&query).unwrap().sql().as_str().to_owned();
                let found = plan(&sql).await;
                assert!(found.contains("SCAN words VIRTUAL TABLE"), "{sql}\n{found}");
                assert!(
                    found.contains("SEARCH jobs USING INTEGER PRIMARY KEY"),
                    "{found}"
                );
            }
        }
    }
}
