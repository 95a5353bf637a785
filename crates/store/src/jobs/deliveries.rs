//! Deliveries to webhooks: which are due, their results, and sending them again. Does not send anything
//! itself.

use jiff::Timestamp;
use protocol::job::JobId;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::commit::BatchedWrite;
use super::record::{bytes, read_uuid};
use super::{
    Delivery, DeliveryAttempt, DeliveryOutcome, DeliveryState, DueDelivery, JobStore, Redelivery,
};
use crate::error::StoreError;
use crate::rows::{nanoseconds, time_of};

// Finds the owners one by one with the index, and for each owner only the first deliveries.
const SELECT_DUE: &str = "
    WITH RECURSIVE owners (owner) AS (
        SELECT min(owner) FROM deliveries WHERE outcome IS NULL
        UNION ALL
        SELECT (SELECT min(owner) FROM deliveries WHERE outcome IS NULL AND owner > owners.owner)
        FROM owners WHERE owners.owner IS NOT NULL
    )
    SELECT d.number, j.id, d.owner, coalesce(json_extract(j.request, '$.webhook.url'), ''), d.tries
    FROM owners CROSS JOIN deliveries d ON d.number IN (
        SELECT first.number FROM deliveries AS first
        WHERE first.outcome IS NULL AND first.owner = owners.owner AND first.due <= ?1
        ORDER BY first.due, first.number LIMIT ?2
    )
    CROSS JOIN jobs j ON j.number = d.job
    ORDER BY d.due, d.number LIMIT ?3";

const SELECT_NEXT_DUE: &str = "
    SELECT due FROM deliveries WHERE outcome IS NULL AND due > ?1 ORDER BY due LIMIT 1";

const SELECT_DELIVERY: &str = "
    SELECT d.number, j.id, d.body, d.tries
    FROM deliveries d CROSS JOIN jobs j ON j.number = d.job WHERE d.number = ?1";

const UPDATE_ATTEMPT: &str = "
    UPDATE deliveries SET tries = tries + 1, tried = ?2, due = coalesce(?3, due), outcome = ?4, error = ?5
    WHERE number = ?1 AND outcome IS NULL";

const SELECT_LAST_DELIVERY: &str = "
    SELECT outcome, tries, tried, due, error FROM deliveries
    WHERE job = (SELECT number FROM jobs WHERE id = ?1) ORDER BY number DESC LIMIT 1";

const UPDATE_DUE_AGAIN: &str = "
    UPDATE deliveries SET tries = 0, due = ?2, outcome = NULL, error = NULL
    WHERE number = (
        SELECT number FROM deliveries
        WHERE job = (SELECT number FROM jobs WHERE id = ?1) ORDER BY number DESC LIMIT 1
    ) AND (outcome IS NOT NULL OR due > ?2)";

const HAS_DELIVERY: &str = "
    SELECT 1 FROM deliveries WHERE job = (SELECT number FROM jobs WHERE id = ?1) LIMIT 1";

const INSERT_DELIVERY: &str = "
    INSERT INTO deliveries (job, owner, due, tries, body)
    SELECT number, owner, ?2, 0, ?3 FROM jobs WHERE id = ?1";

impl JobStore {
    /// Deliveries that are due, the longest due first: at most `per_owner` of each owner and `limit` in
    /// total.
    pub async fn due(
        &self,
        now: Timestamp,
        per_owner: u32,
        limit: u32,
    ) -> Result<Vec<DueDelivery>, StoreError> {
        const WHAT: &str = "find webhooks";
        let statement = sqlx::query(SELECT_DUE).bind(nanoseconds(now));
        let statement = statement.bind(per_owner).bind(limit);
        let rows = self.rows(WHAT, statement).await?;
        let deliveries = rows
            .iter()
            .map(parse_due_delivery)
            .collect::<Result<_, _>>();
        deliveries.map_err(StoreError::database(WHAT))
    }

    /// When the next delivery becomes due that is not due yet.
    pub async fn next_delivery_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        const WHAT: &str = "find webhooks";
        let statement = sqlx::query(SELECT_NEXT_DUE).bind(nanoseconds(now));
        let rows = self.rows(WHAT, statement).await?;
        let due = rows.first().map(|row| row.try_get(0).map(time_of));
        due.transpose().map_err(StoreError::database(WHAT))
    }

    /// A delivery with its body.
    pub async fn delivery(&self, number: i64) -> Result<Option<Delivery>, StoreError> {
        const WHAT: &str = "read a delivery";
        let rows = self
            .rows(WHAT, sqlx::query(SELECT_DELIVERY).bind(number))
            .await?;
        let found = rows.first().map(delivery).transpose();
        found.map_err(StoreError::database(WHAT))
    }

    /// Records an attempt. A delivery that has succeeded or failed for good is not changed.
    pub async fn tried(
        &self,
        delivery: i64,
        tried: DeliveryAttempt,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.write(RecordAttempt {
            delivery,
            tried,
            now,
        })
        .await
    }

    /// The state of the last delivery of a job.
    pub async fn last_delivery(&self, job: JobId) -> Result<Option<DeliveryState>, StoreError> {
        const WHAT: &str = "read a delivery";
        let statement = sqlx::query(SELECT_LAST_DELIVERY).bind(bytes(&job.0));
        let rows = self.rows(WHAT, statement).await?;
        let state = rows.first().map(parse_delivery_state).transpose();
        state.map_err(StoreError::database(WHAT))
    }

    /// Makes the last delivery of a job due again, under its old number. A job without deliveries gets a new
    /// one with this body.
    pub async fn redeliver(
        &self,
        job: JobId,
        body: String,
        now: Timestamp,
    ) -> Result<Redelivery, StoreError> {
        self.write(Redeliver { job, body, now }).await
    }
}

fn parse_due_delivery(row: &SqliteRow) -> Result<DueDelivery, sqlx::Error> {
    Ok(DueDelivery {
        number: row.try_get(0)?,
        job: JobId(read_uuid(row, 1)?),
        owner: row.try_get(2)?,
        url: row.try_get(3)?,
        tries: row.try_get(4)?,
    })
}

fn delivery(row: &SqliteRow) -> Result<Delivery, sqlx::Error> {
    Ok(Delivery {
        number: row.try_get(0)?,
        job: JobId(read_uuid(row, 1)?),
        body: row.try_get(2)?,
        tries: row.try_get(3)?,
    })
}

fn parse_delivery_state(row: &SqliteRow) -> Result<DeliveryState, sqlx::Error> {
    let outcome = match row.try_get::<Option<&str>, _>(0)? {
        None => DeliveryOutcome::Pending {
            due: time_of(row.try_get(3)?),
        },
        Some("delivered") => DeliveryOutcome::Delivered,
        Some("failed") => DeliveryOutcome::Failed,
        Some(other) => {
            let text = format!("`{other}` is not an outcome of a delivery");
            return Err(sqlx::Error::Decode(text.into()));
        }
    };
    Ok(DeliveryState {
        outcome,
        tries: row.try_get(1)?,
        last_try: row.try_get::<Option<i64>, _>(2)?.map(time_of),
        last_error: row.try_get(4)?,
    })
}

struct RecordAttempt {
    delivery: i64,
    tried: DeliveryAttempt,
    now: Timestamp,
}

impl BatchedWrite for RecordAttempt {
    type Outcome = ();

    const WHAT: &'static str = "record a delivery attempt";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let (again, outcome, error) = match &self.tried {
            DeliveryAttempt::Delivered => (None, Some("delivered"), None),
            DeliveryAttempt::Again { at, error } => (Some(nanoseconds(*at)), None, Some(error)),
            DeliveryAttempt::Failed { error } => (None, Some("failed"), Some(error)),
        };
        sqlx::query(UPDATE_ATTEMPT)
            .bind(self.delivery)
            .bind(nanoseconds(self.now))
            .bind(again)
            .bind(outcome)
            .bind(error)
            .execute(connection)
            .await
            .map(drop)
    }
}

struct Redeliver {
    job: JobId,
    body: String,
    now: Timestamp,
}

impl BatchedWrite for Redeliver {
    type Outcome = Redelivery;

    const WHAT: &'static str = "send a webhook again";

    async fn apply(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> Result<Redelivery, sqlx::Error> {
        let job = bytes(&self.job.0);
        let now = nanoseconds(self.now);
        let changed = sqlx::query(UPDATE_DUE_AGAIN)
            .bind(job)
            .bind(now)
            .execute(&mut *connection)
            .await?;
        if changed.rows_affected() > 0 {
            return Ok(Redelivery::Due);
        }
        let query = sqlx::query(HAS_DELIVERY).bind(job);
        if query.fetch_optional(&mut *connection).await?.is_some() {
            return Ok(Redelivery::UnderWay);
        }
        let added = sqlx::query(INSERT_DELIVERY)
            .bind(job)
            .bind(now)
            .bind(&self.body)
            .execute(connection)
            .await?;
        Ok(match added.rows_affected() {
            0 => Redelivery::NoJob,
            _ => Redelivery::Due,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [
            (SELECT_NEXT_DUE, "INDEX deliveries_by_time (due>?)"),
            (SELECT_DELIVERY, "PRIMARY KEY"),
            (UPDATE_ATTEMPT, "PRIMARY KEY"),
            (SELECT_LAST_DELIVERY, "INDEX deliveries_of_job (job=?)"),
            (UPDATE_DUE_AGAIN, "INDEX deliveries_of_job (job=?)"),
            (HAS_DELIVERY, "INDEX deliveries_of_job (job=?)"),
            (INSERT_DELIVERY, "(id=?)"),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
        // Only the short list of owners may be scanned, and only their due deliveries sorted.
        let plan = plan(SELECT_DUE).await;
        assert!(!plan.contains("SCAN d"), "{plan}");
        assert!(!plan.contains("SCAN first"), "{plan}");
        assert!(plan.contains("deliveries_of_owner (owner>?)"), "{plan}");
        assert!(
            plan.contains("deliveries_of_owner (owner=? AND due<?)"),
            "{plan}"
        );
    }
}
