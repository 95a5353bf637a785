//! Forks: a new session that starts with a copy of another's events.
//!
//! Events are copied unchanged inside the database, including fields that only a newer release knows. The one
//! exception is the first event, which gets a reference to the original session.

use jiff::Timestamp;
use protocol::{Event, EventKind, Fork, SessionId};
use sqlx::SqliteConnection;

use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::fold::SummaryFold;
use crate::journal::{Journal, insert_event, insert_session};
use crate::outputs;
use crate::rows::{load_events, place, signed};
use crate::store::SessionStore;

const SELECT_FIRST_BODY: &str = "SELECT body FROM events WHERE session = ?1 AND seq = 1";

const COPY_EVENTS: &str = "
    INSERT INTO events (session, seq, version, time, kind, body)
    SELECT ?2, seq, version, time, kind, body FROM events
    WHERE session = ?1 AND seq BETWEEN 2 AND ?3";

const COPY_WORDS: &str = "
    INSERT INTO words (rowid, text)
    SELECT rowid - ?1 + ?2, text FROM words WHERE rowid BETWEEN ?1 + 1 AND ?1 + ?3";

const COPY_OUTPUTS: &str = "
    INSERT INTO outputs (session, number, bytes)
    SELECT ?2, number, bytes FROM outputs WHERE session = ?1 AND number <= ?3";

const OPERATION: &str = "fork a session";

impl SessionStore {
    /// Begins a session with a copy of another's events up to `seq` (at least the first, at most all), and of
    /// the outputs and checkpoints that they can refer to. The events keep their content and get the new
    /// session's name. The first one also gets the time `now` and says where the session was forked from.
    pub async fn fork(
        &self,
        from: &SessionId,
        seq: u64,
        session: SessionId,
        now: Timestamp,
    ) -> Result<(Journal, Vec<Event>), StoreError> {
        let lock = self.lock(&session)?;
        self.check_new(&session).await?;
        let (source, mut events) = {
            let mut reader = self.sessions_db().reader().await?;
            load_events(&mut reader, from, seq.max(1)).await?
        };
        let fork = Fork {
            session: from.clone(),
            seq: events.len() as u64,
        };
        rewrite_events(&mut events, &session, &fork, now);
        let fold = SummaryFold::of(session.clone(), &events);

        // Checkpoints first: without the session they only waste space, but a session without them would
        // refer to missing checkpoints.
        let checkpoints = last_checkpoint(&events);
        if checkpoints > 0 && self.has_checkpoints() {
            self.copy_checkpoints(from, &session, checkpoints).await?;
        }
        let store = self.clone();
        run_to_completion(OPERATION, async move {
            let mut transaction = store.sessions_db().begin(OPERATION).await?;
            let copied =
                copy_session(transaction.connection(), source, &fork, &fold, &events).await;
            let number = transaction.end(copied).await?;
            Ok((Journal::new(store, lock, Some(number), fold), events))
        })
        .await
    }
}

fn rewrite_events(events: &mut [Event], session: &SessionId, fork: &Fork, now: Timestamp) {
    for event in &mut *events {
        event.session = session.clone();
    }
    if let Some(first) = events.first_mut() {
        first.time = now;
        if let EventKind::SessionStarted { forked_from, .. } = &mut first.kind {
            *forked_from = Some(fork.clone());
        }
    }
}

/// The highest number of a checkpoint that the events refer to.
fn last_checkpoint(events: &[Event]) -> u32 {
    let numbers = events.iter().filter_map(|event| match &event.kind {
        EventKind::CheckpointMade { checkpoint, .. }
        | EventKind::Undone { checkpoint, .. }
        | EventKind::Redone { checkpoint, .. } => Some(checkpoint.number),
        _ => None,
    });
    numbers.max().unwrap_or(0)
}

/// The highest number of an output that the events refer to.
fn last_output(events: &[Event]) -> i64 {
    let numbers = events.iter().filter_map(|event| match &event.kind {
        EventKind::ToolEnded { kept, .. } => outputs::handle_number(&kept.as_ref()?.handle),
        _ => None,
    });
    numbers.max().unwrap_or(0)
}

async fn copy_session(
    connection: &mut SqliteConnection,
    source: i64,
    fork: &Fork,
    fold: &SummaryFold,
    events: &[Event],
) -> Result<i64, StoreError> {
    let gone = || StoreError::Unknown(fork.session.to_string());
    let body: Option<String> = sqlx::query_scalar(SELECT_FIRST_BODY)
        .bind(source)
        .fetch_optional(&mut *connection)
        .await
        .map_err(StoreError::database(OPERATION))?;
    // It existed a moment ago, so it was deleted meanwhile.
    let (Some(body), Some(first)) = (body, events.first()) else {
        return Err(gone());
    };
    let body = body_with_fork(&body, fork).map_err(|source| StoreError::Encode {
        session: fold.summary().session.clone(),
        source,
    })?;
    let copied = copy_rows(
        connection,
        source,
        fork.seq,
        fold,
        first,
        body,
        last_output(events),
    );
    match copied.await.map_err(StoreError::database(OPERATION))? {
        (number, count) if count + 1 == fork.seq => Ok(number),
        _ => Err(gone()),
    }
}

/// Adds the origin to the first event's body and leaves the rest unchanged.
fn body_with_fork(body: &str, fork: &Fork) -> Result<String, serde_json::Error> {
    let mut body: serde_json::Map<_, _> = serde_json::from_str(body)?;
    body.insert("forked_from".to_owned(), serde_json::to_value(fork)?);
    serde_json::to_string(&body)
}

/// Returns the new session's number, and how many events were copied in addition to the first.
async fn copy_rows(
    connection: &mut SqliteConnection,
    source: i64,
    seq: u64,
    fold: &SummaryFold,
    first: &Event,
    body: String,
    outputs: i64,
) -> Result<(i64, u64), sqlx::Error> {
    let number = insert_session(connection, fold.summary()).await?;
    insert_event(connection, number, 1, first, body).await?;
    let copied = sqlx::query(COPY_EVENTS)
        .bind(source)
        .bind(number)
        .bind(signed(seq))
        .execute(&mut *connection)
        .await?;
    sqlx::query(COPY_WORDS)
        .bind(place(source, 0))
        .bind(place(number, 0))
        .bind(signed(seq))
        .execute(&mut *connection)
        .await?;
    sqlx::query(COPY_OUTPUTS)
        .bind(source)
        .bind(number)
        .bind(outputs)
        .execute(connection)
        .await?;
    Ok((number, copied.rows_affected()))
}
