//! What webhooks are still to be told, and when. Knows nothing of how they are told.

use jiff::Timestamp;
use protocol::job::JobId;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use super::commit::Write;
use super::record::uuid;
use super::{Delivery, Jobs};
use crate::error::StoreError;
use crate::rows::{nanoseconds, time_of};

const DUE: &str = "
    SELECT d.number, j.id, d.body, d.tries
    FROM deliveries d CROSS JOIN jobs j ON j.number = d.job
    WHERE d.due <= ?1 ORDER BY d.due, d.number LIMIT ?2";

const NEXT: &str = "SELECT due FROM deliveries WHERE due > ?1 ORDER BY due LIMIT 1";

const LATER: &str = "UPDATE deliveries SET tries = tries + 1, due = ?2 WHERE number = ?1";

const DONE: &str = "DELETE FROM deliveries WHERE number = ?1";

impl Jobs {
    /// Webhooks that are due, those that are due for longest first.
    pub async fn due(&self, now: Timestamp, limit: u32) -> Result<Vec<Delivery>, StoreError> {
        const WHAT: &str = "find webhooks";
        let statement = sqlx::query(DUE).bind(nanoseconds(now)).bind(limit);
        let rows = self.rows(WHAT, statement).await?;
        let deliveries = rows.iter().map(delivery).collect::<Result<_, _>>();
        deliveries.map_err(StoreError::database(WHAT))
    }

    /// When the next webhook is due of those that are not due yet.
    pub async fn next_due(&self, now: Timestamp) -> Result<Option<Timestamp>, StoreError> {
        const WHAT: &str = "find webhooks";
        let statement = sqlx::query(NEXT).bind(nanoseconds(now));
        let rows = self.rows(WHAT, statement).await?;
        let due = rows.first().map(|row| row.try_get(0).map(time_of));
        due.transpose().map_err(StoreError::database(WHAT))
    }

    /// A webhook was tried: it is tried again at that time, or is done with.
    pub async fn tried(&self, delivery: i64, again: Option<Timestamp>) -> Result<(), StoreError> {
        self.write(Tried { delivery, again }).await
    }
}

fn delivery(row: &SqliteRow) -> Result<Delivery, sqlx::Error> {
    Ok(Delivery {
        number: row.try_get(0)?,
        job: JobId(uuid(row, 1)?),
        body: row.try_get(2)?,
        tries: row.try_get(3)?,
    })
}

struct Tried {
    delivery: i64,
    again: Option<Timestamp>,
}

impl Write for Tried {
    type Outcome = ();

    const WHAT: &'static str = "keep that a webhook was tried";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let statement = match self.again {
            Some(again) => sqlx::query(LATER)
                .bind(self.delivery)
                .bind(nanoseconds(again)),
            None => sqlx::query(DONE).bind(self.delivery),
        };
        statement.execute(connection).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::plan;

    #[tokio::test]
    async fn rows_are_found_by_an_index() {
        for (sql, expect) in [
            (DUE, "INDEX deliveries_by_time (due<?)"),
            (LATER, "PRIMARY KEY"),
            (DONE, "PRIMARY KEY"),
        ] {
            let plan = plan(sql).await;
            assert!(plan.contains(expect), "{sql}\n{plan}");
            assert!(!plan.contains("SCAN"), "{sql}\n{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{sql}\n{plan}");
        }
    }
}
