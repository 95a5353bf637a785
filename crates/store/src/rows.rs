//! Converts events and summaries to rows and back.
//!
//! A body that this release cannot decode is an error and is left unchanged: an event is never written again.

use futures_util::TryStreamExt;
use jiff::Timestamp;
use protocol::{EVENT_VERSION, Event, EventKind, SessionId, Usage};
use serde::Deserialize;
use serde::de::Error as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::StoreError;
use crate::sessions::SessionSummary;

const SELECT_EVENTS: &str = "
    SELECT s.number, s.events, e.seq, e.version, e.time, e.body
    FROM sessions s JOIN events e ON e.session = s.number
    WHERE s.name = ?1 AND e.seq <= ?2
    ORDER BY e.seq";

const SELECT_EVENTS_AFTER: &str = "
    SELECT s.number, s.events, e.seq, e.version, e.time, e.body
    FROM sessions s JOIN events e ON e.session = s.number
    WHERE s.name = ?1 AND e.seq > ?2
    ORDER BY e.seq LIMIT ?3";

const SELECT_LAST_OF_KIND: &str = "
    SELECT s.number, s.events, e.seq, e.version, e.time, e.body
    FROM sessions s JOIN events e ON e.session = s.number
    WHERE s.name = ?1 AND e.kind = ?2
    ORDER BY e.seq DESC LIMIT 1";

/// A session's number in the database, and its events up to `last`.
pub(crate) async fn load_events(
    connection: &mut SqliteConnection,
    session: &SessionId,
    last: u64,
) -> Result<(i64, Vec<Event>), StoreError> {
    const WHAT: &str = "read events";
    let mut rows = sqlx::query(SELECT_EVENTS)
        .bind(session.as_str())
        .bind(signed(last))
        .fetch(connection);
    let mut number = None;
    let mut count = 0;
    let mut events: Vec<Event> = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(StoreError::database(WHAT))? {
        let seq = events.len() as u64 + 1;
        let row = EventRow::read(&row).map_err(StoreError::database(WHAT))?;
        if row.seq != seq {
            return Err(missing_event(session, seq));
        }
        number = Some(row.session);
        count = row.count;
        events.push(row.event(session)?);
    }
    match number {
        None => Err(StoreError::Unknown(session.to_string())),
        Some(_) if (events.len() as u64) < count.min(last) => {
            Err(missing_event(session, events.len() as u64 + 1))
        }
        Some(number) => Ok((number, events)),
    }
}

/// At most `limit` events, starting after `after`.
pub(crate) async fn load_events_after(
    connection: &mut SqliteConnection,
    session: &SessionId,
    after: u64,
    limit: u32,
) -> Result<Vec<Event>, StoreError> {
    const WHAT: &str = "read events";
    let rows = sqlx::query(SELECT_EVENTS_AFTER)
        .bind(session.as_str())
        .bind(signed(after))
        .bind(limit)
        .fetch_all(connection)
        .await
        .map_err(StoreError::database(WHAT))?;
    let mut events: Vec<Event> = Vec::with_capacity(rows.len());
    for (row, seq) in rows.iter().zip(after.saturating_add(1)..) {
        let row = EventRow::read(row).map_err(StoreError::database(WHAT))?;
        if row.seq != seq {
            return Err(missing_event(session, seq));
        }
        let is_last = rows.len() < limit as usize && events.len() + 1 == rows.len();
        if is_last && seq < row.count {
            return Err(missing_event(session, seq + 1));
        }
        events.push(row.event(session)?);
    }
    Ok(events)
}

/// The last event with this `type`.
pub(crate) async fn load_last_event(
    connection: &mut SqliteConnection,
    session: &SessionId,
    kind: &str,
) -> Result<Option<Event>, StoreError> {
    const WHAT: &str = "read events";
    let row = sqlx::query(SELECT_LAST_OF_KIND)
        .bind(session.as_str())
        .bind(kind)
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database(WHAT))?;
    let Some(row) = row else {
        return Ok(None);
    };
    let row = EventRow::read(&row).map_err(StoreError::database(WHAT))?;
    row.event(session).map(Some)
}

struct EventRow<'r> {
    session: i64,
    count: u64,
    seq: u64,
    version: i64,
    time: i64,
    // Bytes, because a damaged body need not be UTF-8.
    body: &'r [u8],
}

impl<'r> EventRow<'r> {
    fn read(row: &'r SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            session: row.try_get(0)?,
            count: unsigned(row.try_get(1)?),
            seq: unsigned(row.try_get(2)?),
            version: row.try_get(3)?,
            time: row.try_get(4)?,
            body: row.try_get(5)?,
        })
    }

    fn event(&self, session: &SessionId) -> Result<Event, StoreError> {
        let seq = self.seq;
        if self.version > i64::from(EVENT_VERSION) {
            return Err(StoreError::NewerEvent {
                session: session.clone(),
                seq,
                source: serde_json::Error::custom(format!("version {}", self.version)),
            });
        }
        let kind = parse_event_kind(self.body).map_err(|source| {
            if is_newer(&source) {
                StoreError::NewerEvent {
                    session: session.clone(),
                    seq,
                    source,
                }
            } else {
                StoreError::Damaged {
                    session: session.clone(),
                    seq,
                    source,
                }
            }
        })?;
        Ok(Event {
            v: u32::try_from(self.version).unwrap_or(EVENT_VERSION),
            session: session.clone(),
            seq: Some(seq),
            time: time_of(self.time),
            kind,
        })
    }
}

fn missing_event(session: &SessionId, seq: u64) -> StoreError {
    StoreError::Damaged {
        session: session.clone(),
        seq,
        source: serde_json::Error::custom("it is missing"),
    }
}

fn parse_event_kind(body: &[u8]) -> Result<EventKind, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    // A tool's input was within the limit when it arrived, but in the stored event it is nested deeper.
    deserializer.disable_recursion_limit();
    let kind = EventKind::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(kind)
}

/// Whether valid JSON has a variant that this release does not know. Variants are only ever added, so a newer
/// release wrote it.
fn is_newer(error: &serde_json::Error) -> bool {
    error.is_data() && error.to_string().starts_with("unknown variant")
}

/// The columns of a summary, in the order in which [`summary`] reads them.
macro_rules! summary_columns {
    () => {
        "name, begun, changed, title, workspace, model, turns, input_tokens, \
         cache_creation_input_tokens, cache_read_input_tokens, output_tokens, cost, outcome, events"
    };
}
pub(crate) use summary_columns;

pub(crate) fn summary(row: &SqliteRow) -> Result<SessionSummary, sqlx::Error> {
    Ok(SessionSummary {
        session: session_id(row.try_get(0)?)?,
        begun: time_of(row.try_get(1)?),
        changed: time_of(row.try_get(2)?),
        title: row.try_get(3)?,
        workspace: row.try_get(4)?,
        model: row.try_get(5)?,
        turns: row.try_get(6)?,
        usage: Usage {
            input_tokens: unsigned(row.try_get(7)?),
            cache_creation_input_tokens: unsigned(row.try_get(8)?),
            cache_read_input_tokens: unsigned(row.try_get(9)?),
            output_tokens: unsigned(row.try_get(10)?),
        },
        cost: row.try_get(11)?,
        outcome: row.try_get(12)?,
        events: unsigned(row.try_get(13)?),
    })
}

pub(crate) fn session_id(name: String) -> Result<SessionId, sqlx::Error> {
    SessionId::try_from(name).map_err(|error| sqlx::Error::Decode(Box::new(error)))
}

/// Exact for times between the years 1677 and 2262, clamped outside.
pub(crate) fn nanoseconds(time: Timestamp) -> i64 {
    let nanoseconds = time.as_nanosecond();
    i64::try_from(nanoseconds).unwrap_or(if nanoseconds < 0 { i64::MIN } else { i64::MAX })
}

pub(crate) fn time_of(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// SQLite's integers are signed; larger numbers are clamped.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(crate) fn unsigned(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// The rowid of an event in the search index; see the table `words`.
pub(crate) fn place(session: i64, seq: u64) -> i64 {
    (session << 32) + signed(seq)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[track_caller]
    fn check(body: &str, newer: bool) {
        assert_eq!(
            is_newer(&parse_event_kind(body.as_bytes()).unwrap_err()),
            newer,
            "{body}"
        );
    }

    #[test]
    fn what_is_newer_is_told_from_what_is_damaged() {
        check(r#"{"type":"from_the_future","x":1}"#, true);
        let outcome = r#"{"type":"turn_ended","turn":1,"spending":{"usage":{},"requests":0,"seconds":0},"outcome":{"kind":"from_the_future"}}"#;
        check(outcome, true);
        check(r#"{"type":"turn_started"}"#, false);
        check(r#"{"type":"turn_started","turn":"one","prompt":[]}"#, false);
        check(r#"{"type":"noted","text":"cut"#, false);
        check("", false);
        check("{}", false);
        check("{\"type\":\"noted\",\"text\":\"a\0b\"}", false);
    }
}
