//! Writes a session's events. There is no other way to write them.
//!
//! Events are only appended. The summary and the search index are updated in the same transaction, so that
//! they are always consistent with the events.

use std::sync::Arc;

use jiff::Timestamp;
use protocol::{EVENT_VERSION, Event, EventKind, SessionId};
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Row, Sqlite, SqliteConnection};
use tokio::sync::Mutex;

use crate::database::run_to_completion;
use crate::error::StoreError;
use crate::fold::{SummaryFold, searchable_text};
use crate::lock::SessionLock;
use crate::rows::{load_events, nanoseconds, place, signed, time_of};
use crate::sessions::SessionSummary;
use crate::store::SessionStore;

const INSERT_SESSION: &str = "
    INSERT INTO sessions (name, workspace, model, begun, changed, title, turns, input_tokens,
        cache_creation_input_tokens, cache_read_input_tokens, output_tokens, cost, outcome, events)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
    RETURNING number";

const INSERT_EVENT: &str = "
    INSERT INTO events (session, seq, version, time, kind, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

// The usual append, which every turn waits for: one message to the connection's thread. A parameter number
// that a statement skips counts as an argument of its own, so a statement must not start with a high number.
const APPEND_EVENT: &str = "
    BEGIN IMMEDIATE;
    INSERT INTO events (session, seq, version, time, kind, body) VALUES (?1, ?2, ?5, ?6, ?7, ?8);
    INSERT INTO words (rowid, text) SELECT ?3, ?4 WHERE ?4 IS NOT NULL;
    UPDATE sessions SET changed = ?9, title = ?10, turns = ?11, input_tokens = ?12,
        cache_creation_input_tokens = ?13, cache_read_input_tokens = ?14, output_tokens = ?15,
        cost = ?16, outcome = ?17, events = ?2
    WHERE number = ?1;
    COMMIT";

const SELECT_NUMBER: &str = "SELECT number FROM sessions WHERE name = ?1";

const WRITE_OPERATION: &str = "write an event";

/// The exclusive right to write to a session. It is released when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Journal {
    store: SessionStore,
    session: SessionId,
    /// Locked by each append until it is done, even if its caller stops waiting.
    state: Arc<Mutex<JournalState>>,
}

#[derive(Debug)]
struct JournalState {
    /// The session's number in the database, from its first event on.
    number: Option<i64>,
    fold: SummaryFold,
    // The last field, so that it is released after the others are dropped.
    _lock: SessionLock,
}

impl SessionStore {
    /// Begins a session. Its first event must be [`EventKind::SessionStarted`].
    ///
    /// Nothing is stored before that event.
    pub async fn begin(&self, session: SessionId) -> Result<Journal, StoreError> {
        let lock = self.lock(&session)?;
        self.check_new(&session).await?;
        let fold = SummaryFold::new(session);
        Ok(Journal::new(self.clone(), lock, None, fold))
    }

    /// Opens an existing session for writing, and returns its events.
    ///
    /// Fails with [`StoreError::NewerEvent`] if a newer hotcell wrote one of them: without that event the
    /// conversation would be a different one.
    pub async fn claim(&self, session: &SessionId) -> Result<(Journal, Vec<Event>), StoreError> {
        let lock = self.lock(session)?;
        let (number, events) = {
            let mut reader = self.sessions_db().reader().await?;
            load_events(&mut reader, session, u64::MAX).await?
        };
        let fold = SummaryFold::of(session.clone(), &events);
        let journal = Journal::new(self.clone(), lock, Some(number), fold);
        Ok((journal, events))
    }

    pub(crate) async fn check_new(&self, session: &SessionId) -> Result<(), StoreError> {
        let mut reader = self.sessions_db().reader().await?;
        let number = find_session_number(&mut reader, session).await?;
        match number {
            Some(_) => Err(StoreError::Exists(session.clone())),
            None => Ok(()),
        }
    }
}

impl Journal {
    pub(crate) fn new(
        store: SessionStore,
        lock: SessionLock,
        number: Option<i64>,
        fold: SummaryFold,
    ) -> Self {
        Self {
            store,
            session: fold.summary().session.clone(),
            state: Arc::new(Mutex::new(JournalState {
                number,
                fold,
                _lock: lock,
            })),
        }
    }

    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Writes an event. When this returns, it is on disk.
    ///
    /// The append is completed even if the caller stops waiting.
    pub async fn append(&mut self, time: Timestamp, kind: EventKind) -> Result<Event, StoreError> {
        let mut state = self.state.clone().lock_owned().await;
        let store = self.store.clone();
        run_to_completion(WRITE_OPERATION, async move {
            state.append(&store, time, kind).await
        })
        .await
    }
}

impl JournalState {
    async fn append(
        &mut self,
        store: &SessionStore,
        time: Timestamp,
        kind: EventKind,
    ) -> Result<Event, StoreError> {
        let event = Event {
            v: EVENT_VERSION,
            session: self.fold.summary().session.clone(),
            seq: Some(self.fold.next_seq()),
            time: time_of(nanoseconds(time)),
            kind,
        };
        self.check(&event.kind)?;
        let body = serde_json::to_string(&event.kind).map_err(|source| StoreError::Encode {
            session: event.session.clone(),
            source,
        })?;
        let mut fold = self.fold.clone();
        fold.apply(event.time, &event.kind);

        match self.number {
            Some(number) => append(store, number, fold.summary(), &event, body).await?,
            None => {
                self.number = Some(write_first_event(store, fold.summary(), &event, body).await?)
            }
        }
        self.fold = fold;
        Ok(event)
    }

    fn check(&self, kind: &EventKind) -> Result<(), StoreError> {
        let session = &self.fold.summary().session;
        if !kind.is_lasting() {
            return Err(StoreError::Fleeting(session.clone()));
        }
        let is_start = matches!(kind, EventKind::SessionStarted { .. });
        match self.number {
            None if !is_start => Err(StoreError::NotStarted(session.clone())),
            _ => Ok(()),
        }
    }
}

/// Writes a session's first event. Returns the session's number.
async fn write_first_event(
    store: &SessionStore,
    summary: &SessionSummary,
    event: &Event,
    body: String,
) -> Result<i64, StoreError> {
    let mut transaction = store.sessions_db().begin(WRITE_OPERATION).await?;
    let connection = transaction.connection();
    let written = async {
        let number = insert_session(connection, summary).await?;
        insert_event(connection, number, summary.events, event, body).await?;
        Ok(number)
    };
    let written = written.await.map_err(StoreError::database(WRITE_OPERATION));
    transaction.end(written).await
}

/// Writes a later event, and updates the summary and the search index.
async fn append(
    store: &SessionStore,
    number: i64,
    summary: &SessionSummary,
    event: &Event,
    body: String,
) -> Result<(), StoreError> {
    let seq = summary.events;
    let statements = sqlx::query(APPEND_EVENT)
        .bind(number)
        .bind(signed(seq))
        .bind(place(number, seq))
        .bind(searchable_text(&event.kind))
        .bind(event.v)
        .bind(nanoseconds(event.time))
        .bind(event_type(&body).to_owned())
        .bind(body);
    let statements = bind_summary(statements, summary);
    store
        .sessions_db()
        .execute_batch(WRITE_OPERATION, statements)
        .await
}

/// Binds the fields of a summary that events change, in the order of both statements.
fn bind_summary<'q>(
    statement: Query<'q, Sqlite, SqliteArguments>,
    summary: &'q SessionSummary,
) -> Query<'q, Sqlite, SqliteArguments> {
    statement
        .bind(nanoseconds(summary.changed))
        .bind(&summary.title)
        .bind(summary.turns)
        .bind(signed(summary.usage.input_tokens))
        .bind(signed(summary.usage.cache_creation_input_tokens))
        .bind(signed(summary.usage.cache_read_input_tokens))
        .bind(signed(summary.usage.output_tokens))
        .bind(summary.cost)
        .bind(&summary.outcome)
}

/// Inserts a session's row. Returns its number.
pub(crate) async fn insert_session(
    connection: &mut SqliteConnection,
    summary: &SessionSummary,
) -> Result<i64, sqlx::Error> {
    let statement = sqlx::query(INSERT_SESSION)
        .bind(summary.session.as_str())
        .bind(&summary.workspace)
        .bind(&summary.model)
        .bind(nanoseconds(summary.begun));
    let row = bind_summary(statement, summary)
        .bind(signed(summary.events))
        .fetch_one(connection)
        .await?;
    row.try_get(0)
}

pub(crate) async fn insert_event(
    connection: &mut SqliteConnection,
    number: i64,
    seq: u64,
    event: &Event,
    body: String,
) -> Result<(), sqlx::Error> {
    sqlx::query(INSERT_EVENT)
        .bind(number)
        .bind(signed(seq))
        .bind(event.v)
        .bind(nanoseconds(event.time))
        .bind(event_type(&body).to_owned())
        .bind(body)
        .execute(connection)
        .await
        .map(drop)
}

/// The `type` of an event's JSON. The tag is always written first.
fn event_type(body: &str) -> &str {
    let rest = body.strip_prefix(r#"{"type":""#).unwrap_or_default();
    rest.split('"').next().unwrap_or_default()
}

/// The session's number in the database, if it exists.
pub(crate) async fn find_session_number(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> Result<Option<i64>, StoreError> {
    sqlx::query_scalar(SELECT_NUMBER)
        .bind(session.as_str())
        .fetch_optional(connection)
        .await
        .map_err(StoreError::database("look up a session"))
}
