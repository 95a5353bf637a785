//! Jobs that wait until a given time, and the next job that may be claimed now.
//!
//! The time is wall-clock time, and the clock may be set while a job waits. If a job's time of parking is in
//! the future, the clock was set back, and the job may be claimed at once. So a clock change never makes a
//! job wait longer than intended.

use std::time::Duration;

use jiff::Timestamp;
use protocol::job::Job;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::commit::BatchedWrite;
use super::record::job_columns;
use super::{ClaimFilter, JobStore};
use crate::error::StoreError;
use crate::rows::{nanoseconds, signed, time_of, unsigned};

const SELECT_NEXT_QUEUED: &str = concat!(
    "SELECT ",
    job_columns!(),
    " FROM jobs WHERE owner = ?1 AND place IS NOT NULL AND status = 'pending'
        AND iif(not_before IS NOT NULL AND json_extract(parked, '$.waited_millis') >= ?3, TRUE,
            (not_before IS NULL OR not_before <= ?2 OR parked_at > ?2)
            AND coalesce(json_extract(request, '$.model'), '')
                NOT IN (SELECT value FROM json_each(?4)))
    ORDER BY place, id LIMIT 1"
);

const SELECT_QUEUED_MODELS: &str = "
    SELECT DISTINCT json_extract(request, '$.model') FROM jobs
    WHERE owner = ?1 AND place IS NOT NULL AND status = 'pending'";

const SELECT_NEXT_UNPARKED: &str = "SELECT min(not_before) FROM jobs WHERE not_before > ?1";

const COUNT_PARKED: &str = "SELECT count(*) FROM jobs WHERE not_before IS NOT NULL";

const ADD_PARKED_TIME: &str = "
    UPDATE jobs SET parked = json_set(parked, '$.waited_millis',
        json_extract(parked, '$.waited_millis') + ?1)
    WHERE not_before IS NOT NULL";

impl JobStore {
    /// The queued job of this user that has waited longest, among those that may be claimed.
    pub async fn next_queued(
        &self,
        owner: &str,
        claimable: &ClaimFilter,
    ) -> Result<Option<Job>, StoreError> {
        const WHAT: &str = "find the next job";
        let blocked: Vec<&str> = claimable
            .blocked
            .iter()
            .map(|model| model.as_deref().unwrap_or_default())
            .collect();
        let blocked = serde_json::json!(blocked).to_string();
        let statement = sqlx::query(SELECT_NEXT_QUEUED)
            .bind(owner)
            .bind(nanoseconds(claimable.now))
            .bind(to_millis(claimable.longest_parked))
            .bind(blocked);
        self.one(WHAT, statement).await
    }

    /// The models that this user's queued jobs request; `None` is the server's default model.
    pub async fn queued_models(&self, owner: &str) -> Result<Vec<Option<String>>, StoreError> {
        const WHAT: &str = "list the models of queued jobs";
        let rows = self
            .rows(WHAT, sqlx::query(SELECT_QUEUED_MODELS).bind(owner))
            .await?;
        let models = rows
            .iter()
            .map(|row| row.try_get(0))
            .collect::<Result<_, _>>();
        models.map_err(StoreError::database(WHAT))
    }

    /// The next time after `now` at which a parked job may be claimed.
    pub async fn next_unparked(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        const WHAT: &str = "find when the next parked job is due";
        let statement = sqlx::query(SELECT_NEXT_UNPARKED).bind(nanoseconds(now));
        let due = |row: &SqliteRow| row.try_get::<Option<i64>, _>(0);
        let rows = self.rows(WHAT, statement).await?;
        let due = rows.first().map_or(Ok(None), due);
        Ok(due.map_err(StoreError::database(WHAT))?.map(time_of))
    }

    /// How many jobs are parked.
    pub async fn parked(&self) -> Result<u64, StoreError> {
        const WHAT: &str = "count parked jobs";
        let rows = self.rows(WHAT, sqlx::query(COUNT_PARKED)).await?;
        let count = rows.first().map_or(Ok(0), |row| row.try_get(0));
        count.map(unsigned).map_err(StoreError::database(WHAT))
    }

    /// Adds elapsed time to every parked job. Changes no revision.
    pub async fn add_parked_time(&self, passed: Duration) -> Result<(), StoreError> {
        self.write(AddParkedTime(to_millis(passed))).await
    }
}

fn to_millis(time: Duration) -> i64 {
    signed(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

struct AddParkedTime(i64);

impl BatchedWrite for AddParkedTime {
    type Outcome = ();

    const WHAT: &'static str = "count how long jobs were parked";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        sqlx::query(ADD_PARKED_TIME)
            .bind(self.0)
            .execute(connection)
            .await
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [
            (
                SELECT_NEXT_QUEUED,
                "SEARCH jobs USING INDEX jobs_in_line (owner=? AND place>?)",
            ),
            (SELECT_QUEUED_MODELS, "(owner=?"),
            (
                SELECT_NEXT_UNPARKED,
                "SEARCH jobs USING COVERING INDEX jobs_parked",
            ),
            (COUNT_PARKED, "USING COVERING INDEX jobs_parked"),
            (ADD_PARKED_TIME, "USING INDEX jobs_parked"),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
        }
        let plan = plan(SELECT_NEXT_QUEUED).await;
        assert!(!plan.contains("USE TEMP B-TREE FOR ORDER BY"), "{plan}");
    }
}
