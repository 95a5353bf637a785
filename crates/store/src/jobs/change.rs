//! Changes of jobs' records: by compare and swap, by workers' heartbeats, and by deletion.

use jiff::Timestamp;
use protocol::job::{Job, JobId, JobState};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::commit::BatchedWrite;
use super::record::{JobColumns, bytes, job, job_columns, time};
use super::{ChangeExtras, ChangeResult, Heartbeat, JobStore};
use crate::error::StoreError;
use crate::rows::{nanoseconds, signed};

// A job that has not ended keeps its place in the queue. One that ended and is queued again comes last. A
// heartbeat may have arrived since the record was read; then the higher running time is kept.
const UPDATE_JOB: &str = concat!(
    "
    UPDATE jobs SET
        status = ?4,
        place = CASE
            WHEN ?5 THEN NULL
            WHEN place IS NOT NULL THEN place
            ELSE (SELECT coalesce(max(place), 0) + 1 FROM jobs AS other
                WHERE other.owner = jobs.owner AND other.place IS NOT NULL)
        END,
        epoch = ?6, revision = revision + 1, started = ?7, ended = ?8,
        ran_millis = iif(status = 'running', max(ran_millis, ?9), ?9),
        session = ?10, messages = ?11, crashes = ?12, artifact_bytes = ?13, state = ?14,
        spending = ?15, artifact = ?16, result = ?17, parked = ?18, parked_at = ?19, not_before = ?20
    WHERE id = ?1 AND revision = ?2 AND messages = ?3
    RETURNING ",
    job_columns!(),
    ", number"
);

/// The index of the column after those of the job.
const NUMBER_COLUMN: usize = 18;

const SELECT_REVISION: &str = "SELECT 1 FROM jobs WHERE id = ?1 AND revision = ?2";

const ADD_MESSAGE: &str = "INSERT INTO messages (job, number, time, text) VALUES (?1, ?2, ?3, ?4)";

const ADD_DELIVERY: &str = "
    INSERT INTO deliveries (job, owner, due, tries, body)
    SELECT number, owner, ?2, 0, ?3 FROM jobs WHERE number = ?1";

const UPDATE_RAN_TIME: &str = "
    UPDATE jobs SET ran_millis = max(ran_millis, ?3)
    WHERE id = ?1 AND epoch = ?2 AND status = 'running'";

const DELETE_JOB: &str = "DELETE FROM jobs WHERE id = ?1 AND revision = ?2 AND place IS NULL";

impl JobStore {
    /// Saves a changed record if the stored one still has its revision. The request, its owner and its time
    /// are never changed.
    pub async fn change(&self, job: Job, along: ChangeExtras) -> Result<ChangeResult, StoreError> {
        let change = ChangeJob {
            written: JobColumns::of(&job)?,
            job,
            along,
            now: nanoseconds(Timestamp::now()),
        };
        self.write(change).await?
    }

    /// Records how long jobs have run. A heartbeat of an older epoch, or of a job that is not running, is
    /// ignored. Changes no revision.
    pub async fn beat(&self, beats: Vec<Heartbeat>) -> Result<(), StoreError> {
        if beats.is_empty() {
            Ok(())
        } else {
            self.write(RecordHeartbeats(beats)).await
        }
    }

    /// Deletes a job that has ended, if it still has this revision, with its messages, its deliveries and its
    /// key. Returns whether it was deleted.
    pub async fn forget(&self, id: JobId, revision: u64) -> Result<bool, StoreError> {
        self.write(DeleteJob { id, revision }).await
    }
}

struct ChangeJob {
    job: Job,
    along: ChangeExtras,
    written: JobColumns,
    now: i64,
}

impl BatchedWrite for ChangeJob {
    type Outcome = Result<ChangeResult, StoreError>;

    const WHAT: &'static str = "change a job";

    async fn apply(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> Result<Self::Outcome, sqlx::Error> {
        let Some(row) = self.update(connection).await? else {
            return self.refusal_reason(connection).await;
        };
        let number: i64 = row.try_get(NUMBER_COLUMN)?;
        if let Some(text) = &self.along.message {
            sqlx::query(ADD_MESSAGE)
                .bind(number)
                .bind(self.job.messages)
                .bind(self.now)
                .bind(text)
                .execute(&mut *connection)
                .await?;
        }
        if let Some(body) = &self.along.delivery {
            sqlx::query(ADD_DELIVERY)
                .bind(number)
                .bind(self.now)
                .bind(body)
                .execute(connection)
                .await?;
        }
        Ok(job(Self::WHAT, &row).map(|job| ChangeResult::Saved(Box::new(job))))
    }
}

impl ChangeJob {
    /// Returns the updated row, or `None` if no row matched.
    async fn update(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Option<SqliteRow>, sqlx::Error> {
        let job = &self.job;
        let said = i64::from(self.along.message.is_some());
        // A job that is being tried again keeps the record of its failures, but is no longer parked.
        let parked = job
            .parked
            .as_ref()
            .filter(|_| job.state == JobState::Queued);
        sqlx::query(UPDATE_JOB)
            .bind(bytes(&job.id.0))
            .bind(signed(job.revision))
            .bind(i64::from(job.messages) - said)
            .bind(self.written.status)
            .bind(job.state.has_ended())
            .bind(job.epoch)
            .bind(time(job.started))
            .bind(time(job.ended))
            .bind(signed(job.ran_millis))
            .bind(job.session.as_ref().map(|session| session.as_str()))
            .bind(job.messages)
            .bind(job.crashes)
            .bind(job.artifact.as_ref().map(|artifact| signed(artifact.bytes)))
            .bind(&self.written.state)
            .bind(&self.written.spending)
            .bind(&self.written.artifact)
            .bind(&job.answer)
            .bind(&self.written.parked)
            .bind(parked.map(|parked| nanoseconds(parked.since)))
            .bind(parked.map(|parked| nanoseconds(parked.not_before)))
            .fetch_optional(connection)
            .await
    }

    /// Finds out why nothing was changed.
    async fn refusal_reason(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Result<ChangeResult, StoreError>, sqlx::Error> {
        let has_revision = sqlx::query(SELECT_REVISION)
            .bind(bytes(&self.job.id.0))
            .bind(signed(self.job.revision))
            .fetch_optional(connection)
            .await?;
        Ok(match has_revision {
            Some(_) => Err(StoreError::MessageCount(self.job.id)),
            None => Ok(ChangeResult::Stale),
        })
    }
}

struct RecordHeartbeats(Vec<Heartbeat>);

impl BatchedWrite for RecordHeartbeats {
    type Outcome = ();

    const WHAT: &'static str = "write how long jobs ran";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        for beat in &self.0 {
            sqlx::query(UPDATE_RAN_TIME)
                .bind(bytes(&beat.job.0))
                .bind(beat.epoch)
                .bind(signed(beat.ran_millis))
                .execute(&mut *connection)
                .await?;
        }
        Ok(())
    }
}

struct DeleteJob {
    id: JobId,
    revision: u64,
}

impl BatchedWrite for DeleteJob {
    type Outcome = bool;

    const WHAT: &'static str = "forget a job";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<bool, sqlx::Error> {
        let done = sqlx::query(DELETE_JOB)
            .bind(bytes(&self.id.0))
            .bind(signed(self.revision))
            .execute(connection)
            .await?;
        Ok(done.rows_affected() == 1)
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
                UPDATE_JOB,
                "SEARCH other USING COVERING INDEX jobs_in_line (owner=?",
            ),
            (
                UPDATE_JOB,
                "SEARCH jobs USING INDEX sqlite_autoindex_jobs_1 (id=?)",
            ),
            (SELECT_REVISION, "(id=?)"),
            (UPDATE_RAN_TIME, "(id=?)"),
            (DELETE_JOB, "(id=?)"),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
