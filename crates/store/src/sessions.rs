//! Lists of sessions, by age and by name. Reads only the stored summaries, never the events, so that listing
//! ten thousand sessions is as fast as listing ten.

use jiff::Timestamp;
use protocol::{Event, SessionId, Usage};

use crate::error::StoreError;
use crate::rows::{
    load_events, load_events_after, load_last_event, session_id, signed, summary, summary_columns,
    unsigned,
};
use crate::store::SessionStore;

const SELECT_SESSIONS: &str = concat!(
    "SELECT ",
    summary_columns!(),
    " FROM sessions WHERE name < ?1 ORDER BY name DESC LIMIT ?2"
);

const SELECT_SESSIONS_OF_WORKSPACE: &str = concat!(
    "SELECT ",
    summary_columns!(),
    " FROM sessions WHERE name < ?1 AND workspace = ?3 ORDER BY name DESC LIMIT ?2"
);

const SELECT_SESSION: &str = concat!(
    "SELECT ",
    summary_columns!(),
    " FROM sessions WHERE name = ?1"
);

const SELECT_BY_PREFIX: &str = "
    SELECT name, count(*) OVER () FROM sessions WHERE name >= ?1 AND name < ?2 LIMIT 1";

/// Sorts after all names, which consist of digits, lower-case letters and `-`.
const AFTER_ALL_NAMES: &str = "~";

/// The summary of a session, for lists.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionSummary {
    pub session: SessionId,
    pub begun: Timestamp,
    /// Time of the latest event.
    pub changed: Timestamp,
    /// First line of the first prompt that is not undone, cut off if it is long.
    pub title: String,
    pub workspace: String,
    pub model: String,
    /// Without undone turns.
    pub turns: u32,
    /// Of all requests, including those of undone turns.
    pub usage: Usage,
    /// In US dollars; `None` if any part of it is unknown.
    pub cost: Option<f64>,
    /// How the last turn ended, in the JSON names of [`protocol::Outcome`]; `None` while a turn is running
    /// and before the first one.
    pub outcome: Option<String>,
    pub events: u64,
}

/// Selects sessions for a list, newest first.
#[derive(Debug, Clone, Default)]
pub struct SessionQuery {
    pub workspace: Option<String>,
    /// Only sessions that are older than this one.
    pub before: Option<SessionId>,
    /// 0 means no limit.
    pub limit: u64,
}

impl SessionStore {
    pub async fn sessions(&self, page: &SessionQuery) -> Result<Vec<SessionSummary>, StoreError> {
        const WHAT: &str = "list sessions";
        let before = page
            .before
            .as_ref()
            .map_or(AFTER_ALL_NAMES, SessionId::as_str);
        let query = match &page.workspace {
            None => sqlx::query(SELECT_SESSIONS)
                .bind(before)
                .bind(limit(page.limit)),
            Some(workspace) => sqlx::query(SELECT_SESSIONS_OF_WORKSPACE)
                .bind(before)
                .bind(limit(page.limit))
                .bind(workspace),
        };
        let mut reader = self.sessions_db().reader().await?;
        let rows = query
            .fetch_all(&mut *reader)
            .await
            .map_err(StoreError::database(WHAT))?;
        let summaries = rows.iter().map(summary).collect::<Result<_, _>>();
        summaries.map_err(StoreError::database(WHAT))
    }

    pub async fn summary(&self, session: &SessionId) -> Result<SessionSummary, StoreError> {
        const WHAT: &str = "look up a session";
        let mut reader = self.sessions_db().reader().await?;
        let row = sqlx::query(SELECT_SESSION)
            .bind(session.as_str())
            .fetch_optional(&mut *reader)
            .await
            .map_err(StoreError::database(WHAT))?;
        match row {
            Some(row) => summary(&row).map_err(StoreError::database(WHAT)),
            None => Err(StoreError::Unknown(session.to_string())),
        }
    }

    /// The session with this name, or the only one whose name begins with it.
    pub async fn find(&self, name: &str) -> Result<SessionId, StoreError> {
        const WHAT: &str = "look up a session";
        let mut reader = self.sessions_db().reader().await?;
        let row: Option<(String, i64)> = sqlx::query_as(SELECT_BY_PREFIX)
            .bind(name)
            .bind(format!("{name}{AFTER_ALL_NAMES}"))
            .fetch_optional(&mut *reader)
            .await
            .map_err(StoreError::database(WHAT))?;
        match row {
            None => Err(StoreError::Unknown(name.to_owned())),
            Some((found, 1)) => session_id(found).map_err(StoreError::database(WHAT)),
            Some((_, count)) => Err(StoreError::Ambiguous {
                name: name.to_owned(),
                count: unsigned(count),
            }),
        }
    }

    /// All events of a session, in order.
    pub async fn events(&self, session: &SessionId) -> Result<Vec<Event>, StoreError> {
        let mut reader = self.sessions_db().reader().await?;
        let (_, events) = load_events(&mut reader, session, u64::MAX).await?;
        Ok(events)
    }

    /// At most `limit` events of a session, starting after `after`. Empty for an unknown session.
    pub async fn events_after(
        &self,
        session: &SessionId,
        after: u64,
        limit: u32,
    ) -> Result<Vec<Event>, StoreError> {
        let mut reader = self.sessions_db().reader().await?;
        load_events_after(&mut reader, session, after, limit).await
    }

    /// The last event with this `type`. `None` for an unknown session.
    pub async fn last_event(
        &self,
        session: &SessionId,
        kind: &str,
    ) -> Result<Option<Event>, StoreError> {
        let mut reader = self.sessions_db().reader().await?;
        load_last_event(&mut reader, session, kind).await
    }
}

/// Converts a limit for SQLite, where a negative one means no limit.
pub(crate) fn limit(limit: u64) -> i64 {
    match limit {
        0 => -1,
        limit => signed(limit),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use sqlx::{AssertSqlSafe, Row};

    use super::*;

    #[tokio::test]
    async fn lists_are_read_off_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let store = SessionStore::open(folder.path()).await.unwrap();
        let mut reader = store.sessions_db().reader().await.unwrap();
        for sql in [
            SELECT_SESSIONS,
            SELECT_SESSIONS_OF_WORKSPACE,
            SELECT_SESSION,
            SELECT_BY_PREFIX,
        ] {
            let plan = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
                .fetch_all(&mut *reader)
                .await
                .unwrap();
            let plan: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
            let plan = plan.join("\n");
            assert!(plan.contains("SEARCH sessions USING"), "{plan}");
            assert!(!plan.contains("USE TEMP B-TREE"), "{plan}");
        }
    }
}
