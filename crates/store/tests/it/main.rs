//! Tests of the store's public interface: writing, reading, concurrent use, crashes, pruning.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod checkpoints;
mod crash;
mod deletion;
mod fork;
mod jobs;
mod journal;
mod lists;
mod maintenance;
mod opening;
mod outputs;
mod processes;
mod search;

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::{Block, Event, EventKind, Kept, Outcome, SessionId, Spending, Stop, Usage};
use serde_json::{Value, json};
use sqlx::{ConnectOptions, SqliteConnection};
use store::{Journal, SessionStore};

/// A folder for a store, with the store open.
pub(crate) struct StoreFixture {
    pub(crate) folder: PathBuf,
    pub(crate) store: SessionStore,
    _parent: tempfile::TempDir,
}

impl StoreFixture {
    pub(crate) async fn new() -> StoreFixture {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("store");
        StoreFixture {
            store: SessionStore::open(&folder).await.unwrap(),
            folder,
            _parent: parent,
        }
    }

    /// Opens the store again, as another process would.
    pub(crate) async fn again(&self) -> SessionStore {
        SessionStore::open(&self.folder).await.unwrap()
    }

    /// Creates a session with these events after its start, and closes it.
    pub(crate) async fn session(&self, number: u32, kinds: &[EventKind]) -> SessionId {
        let mut journal = self.begin(number).await;
        for kind in kinds {
            append(&mut journal, kind.clone()).await;
        }
        id(number)
    }

    pub(crate) async fn begin(&self, number: u32) -> Journal {
        let mut journal = self.store.begin(id(number)).await.unwrap();
        append(&mut journal, start("/w")).await;
        journal
    }

    pub(crate) async fn sql(&self, file: &str) -> SqliteConnection {
        connect(&self.folder.join(file)).await
    }

    /// Runs SQL directly on the database, bypassing the store.
    pub(crate) async fn run(&self, file: &str, sql: &'static str) {
        let mut connection = self.sql(file).await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }

    pub(crate) async fn number(&self, file: &str, sql: &'static str) -> i64 {
        let mut connection = self.sql(file).await;
        sqlx::query_scalar(sql)
            .fetch_one(&mut connection)
            .await
            .unwrap()
    }
}

pub(crate) async fn connect(path: &Path) -> SqliteConnection {
    let options = sqlx::sqlite::SqliteConnectOptions::new();
    options.filename(path).connect().await.unwrap()
}

pub(crate) async fn append(journal: &mut Journal, kind: EventKind) -> Event {
    journal.append(Timestamp::now(), kind).await.unwrap()
}

/// The id of a session that began in that second of the year.
pub(crate) fn id(number: u32) -> SessionId {
    let begun = jiff::civil::datetime(2026, 1, 1, 0, 0, 0, 0);
    SessionId::new(
        &(begun + jiff::SignedDuration::from_secs(number.into())),
        number,
    )
}

pub(crate) fn start(workspace: &str) -> EventKind {
    EventKind::SessionStarted {
        release: "1".into(),
        workspace: workspace.into(),
        model: "model".into(),
        forked_from: None,
    }
}

pub(crate) fn prompt(turn: u32, text: &str) -> EventKind {
    EventKind::TurnStarted {
        turn,
        prompt: vec![Block::text(text)],
    }
}

pub(crate) fn reply(text: &str, tokens: u64, cost: Option<f64>) -> EventKind {
    EventKind::Replied {
        turn: 1,
        content: vec![Block::text(text)],
        stop: Stop::EndTurn,
        broken_calls: Default::default(),
        usage: Usage {
            input_tokens: tokens,
            output_tokens: tokens * 2,
            ..Usage::default()
        },
        cost,
        model: "model".into(),
    }
}

pub(crate) fn end(turn: u32) -> EventKind {
    EventKind::TurnEnded {
        turn,
        outcome: Outcome::Done,
        spending: Spending::default(),
    }
}

pub(crate) fn undo(turn: u32) -> EventKind {
    kind(
        json!({"type": "undone", "turn": turn, "restored": 0, "removed": 0,
        "checkpoint": {"number": 1, "files": 0, "bytes": 0}}),
    )
}

pub(crate) fn kind(json: Value) -> EventKind {
    serde_json::from_value(json).unwrap()
}

pub(crate) fn tool_ended(kept: Option<&str>) -> EventKind {
    EventKind::ToolEnded {
        call: "c".into(),
        name: "bash".into(),
        content: vec![Block::text("ok")],
        is_error: false,
        kept: kept.map(|handle| Kept {
            handle: handle.into(),
            bytes: 1,
        }),
        changes: vec![],
        millis: 1,
        denied: Some(false),
        summary: None,
    }
}

pub(crate) fn kinds(events: &[Event]) -> Vec<EventKind> {
    events.iter().map(|event| event.kind.clone()).collect()
}
