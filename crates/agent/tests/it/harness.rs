//! An agent under test: its workspace and store in a temporary folder, its events as they come.
//!
//! Every event is validated against the schema, and at the end the lasting ones are compared with the
//! store.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use agent::{AgentError, Approvals, ChosenModel, NoModels, SessionSetup, UsagePricing};
use jsonschema::Validator;
use llm::Model;
use protocol::{AgentCommand, Block, Budget, Event, EventKind, Outcome, SessionId, Spending};
use sandbox::SandboxSpec;
use serde_json::Value;
use store::{SessionStore, StoreError};
use tempfile::TempDir;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tools::{Tool, ToolSet};

/// A test that takes longer is considered hung. Far longer than any test takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(100);

static SCHEMA: LazyLock<Validator> = LazyLock::new(|| {
    let schema: Value =
        serde_json::from_str(include_str!("../../../../docs/events.schema.json")).unwrap();
    jsonschema::validator_for(&schema).unwrap()
});

/// Runs a test, and fails it if it hangs.
pub(crate) fn run_with_timeout(test: impl Future<Output = ()>) {
    testkit::run_with_timeout(TEST_TIMEOUT, test);
}

/// Workspace, store and id of a session.
pub(crate) struct SessionFixture {
    folder: TempDir,
    pub(crate) store: SessionStore,
    pub(crate) session: SessionId,
}

impl SessionFixture {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("workspace")).unwrap();
        Self {
            store: SessionStore::open(&folder.path().join("store"))
                .await
                .unwrap(),
            session: new_session(),
            folder,
        }
    }

    /// A path in the workspace, on the host.
    pub(crate) fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.workspace().join(name)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace")
    }

    /// A path outside the workspace that the sandbox must not reach.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &str) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        self.store.events(&self.session).await.unwrap()
    }

    /// Continues as another session in the same store and workspace, with the first events of this one.
    pub(crate) async fn fork(&mut self, seq: u64) {
        let session = new_session();
        let now = jiff::Timestamp::now();
        let forked = self.store.fork(&self.session, seq, session.clone(), now);
        drop(forked.await.unwrap());
        self.session = session;
    }

    /// The setup of the session, or of its continuation if it exists.
    pub(crate) async fn setup(&self, model: Arc<dyn Model>) -> SessionSetup {
        let is_new = self.store.summary(&self.session).await.is_err();
        let (journal, history) = if is_new {
            (
                self.store.begin(self.session.clone()).await.unwrap(),
                Vec::new(),
            )
        } else {
            self.store.claim(&self.session).await.unwrap()
        };
        SessionSetup {
            store: self.store.clone(),
            journal,
            history,
            model: ChosenModel {
                model,
                price: UsagePricing::unknown(),
                window: None,
            },
            models: Arc::new(NoModels),
            sandbox: SandboxSpec::new(self.workspace()),
            tools: watch::Sender::new(ToolSet::standard()).subscribe(),
            budget: Budget::default(),
            time_limit: None,
            spent: Spending::none(),
            max_tokens: 4096,
            approvals: Approvals::default(),
        }
    }

    pub(crate) async fn start(&self, model: Arc<dyn Model>) -> TestAgent {
        self.start_with(model, |_| {}).await
    }

    pub(crate) async fn start_with(
        &self,
        model: Arc<dyn Model>,
        change: impl FnOnce(&mut SessionSetup),
    ) -> TestAgent {
        let mut setup = self.setup(model).await;
        let known = setup.history.len();
        change(&mut setup);
        let (commands, command_receiver) = mpsc::channel(16);
        let (event_sender, events) = mpsc::channel(256);
        TestAgent {
            commands,
            events,
            task: tokio::spawn(agent::run(setup, command_receiver, event_sender)),
            seen: Vec::new(),
            known,
            store: self.store.clone(),
            session: self.session.clone(),
        }
    }
}

/// Tools that stay the same for a whole session.
pub(crate) fn fixed_tools(tools: Vec<Arc<dyn Tool>>) -> watch::Receiver<ToolSet> {
    watch::Sender::new(ToolSet::new(tools)).subscribe()
}

pub(crate) fn new_session() -> SessionId {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let started = jiff::civil::datetime(2026, 1, 31, 12, 0, 0, 0);
    SessionId::new(&started, NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A running session.
pub(crate) struct TestAgent {
    commands: mpsc::Sender<AgentCommand>,
    events: mpsc::Receiver<Event>,
    task: JoinHandle<Result<(), AgentError>>,
    /// All events so far.
    pub(crate) seen: Vec<Event>,
    /// How many events the session had before.
    known: usize,
    store: SessionStore,
    session: SessionId,
}

impl TestAgent {
    pub(crate) async fn send(&self, command: AgentCommand) {
        self.commands.send(command).await.unwrap();
    }

    /// Runs one turn, from its prompt to its end.
    pub(crate) async fn prompt(&mut self, text: &str) -> Outcome {
        self.send(AgentCommand::prompt(text)).await;
        self.ended().await
    }

    /// Waits for the end of the running turn.
    pub(crate) async fn ended(&mut self) -> Outcome {
        let ended = |kind: &EventKind| matches!(kind, EventKind::TurnEnded { .. });
        match self.until(ended).await {
            EventKind::TurnEnded { outcome, .. } => outcome,
            _ => unreachable!(),
        }
    }

    /// Waits for an event.
    pub(crate) async fn until(&mut self, is_it: impl Fn(&EventKind) -> bool) -> EventKind {
        loop {
            let Some(event) = self.events.recv().await else {
                panic!("the session ended first: {:?}", (&mut self.task).await);
            };
            let kind = event.kind.clone();
            self.add_event(event);
            if is_it(&kind) {
                return kind;
            }
        }
    }

    /// Undoes the last turn. Returns the event that reports or refuses it.
    pub(crate) async fn undo(&mut self) -> EventKind {
        self.send(AgentCommand::Undo).await;
        let said = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::Undone { .. } | EventKind::CommandRefused { .. }
            )
        };
        self.until(said).await
    }

    /// Reverts the last undo. Returns the event that reports or refuses it.
    pub(crate) async fn redo(&mut self) -> EventKind {
        self.send(AgentCommand::Redo).await;
        let said = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::Redone { .. } | EventKind::CommandRefused { .. }
            )
        };
        self.until(said).await
    }

    /// Why a command was refused. Fails if it is not.
    pub(crate) async fn refused(&mut self, command: AgentCommand) -> String {
        self.send(command).await;
        let refused = |kind: &EventKind| matches!(kind, EventKind::CommandRefused { .. });
        match self.until(refused).await {
            EventKind::CommandRefused { reason } => reason,
            _ => unreachable!(),
        }
    }

    /// The error that ends a session before its commands are closed.
    pub(crate) async fn failed(mut self) -> AgentError {
        while let Some(event) = self.events.recv().await {
            self.add_event(event);
        }
        (&mut self.task).await.unwrap().unwrap_err()
    }

    fn add_event(&mut self, event: Event) {
        let value = serde_json::to_value(&event).unwrap();
        if let Err(error) = SCHEMA.validate(&value) {
            panic!("{error}: {value}");
        }
        assert_eq!(event.seq.is_some(), event.kind.is_lasting(), "{event:?}");
        self.seen.push(event);
    }

    /// Ends the session and returns all of its events.
    pub(crate) async fn end(mut self) -> Vec<Event> {
        let outcome = self.close().await;
        outcome.unwrap();
        self.seen
    }

    /// The same, for a session that may fail.
    pub(crate) async fn close(&mut self) -> Result<(), AgentError> {
        self.commands = mpsc::channel(1).0;
        while let Some(event) = self.events.recv().await {
            self.add_event(event);
        }
        let outcome = (&mut self.task).await.unwrap();
        let lasting = self.seen.iter().filter(|event| event.kind.is_lasting());
        let lasting: Vec<&Event> = lasting.collect();
        let stored = match self.store.events(&self.session).await {
            // No turn was started, so nothing is stored.
            Err(StoreError::Unknown(_)) if lasting.is_empty() => Vec::new(),
            stored => stored.unwrap(),
        };
        let stored: Vec<&Event> = stored.iter().skip(self.known).collect();
        assert_eq!(lasting, stored, "sent events equal stored events");
        for (event, seq) in lasting.iter().zip(self.known as u64 + 1..) {
            assert_eq!(event.seq, Some(seq));
        }
        outcome
    }

    /// Aborts the session at any point, like a killed process.
    pub(crate) async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    pub(crate) fn kinds(&self) -> impl Iterator<Item = &EventKind> {
        self.seen.iter().map(|event| &event.kind)
    }

    /// Texts of the results so far, and whether each is an error.
    pub(crate) fn results(&self) -> Vec<(String, bool)> {
        results(&self.seen)
    }
}

/// Whether it is the checkpoint at the end of a turn, after which the session is idle.
pub(crate) fn is_after_checkpoint(kind: &EventKind) -> bool {
    let after = protocol::Moment::After;
    matches!(kind, EventKind::CheckpointMade { moment, .. } if *moment == after)
}

/// Texts of results, and whether each is an error.
pub(crate) fn results(events: &[Event]) -> Vec<(String, bool)> {
    let result = |event: &Event| match &event.kind {
        EventKind::ToolEnded {
            content, is_error, ..
        } => Some((text(content), *is_error)),
        _ => None,
    };
    events.iter().filter_map(result).collect()
}

pub(crate) fn text(content: &[Block]) -> String {
    let texts: Vec<&str> = content.iter().filter_map(Block::as_text).collect();
    texts.join("\n")
}

/// Asserts that a text contains another.
#[track_caller]
pub(crate) fn assert_contains(text: &str, says: &str) {
    assert!(text.contains(says), "no `{says}` in: {text}");
}
