//! The session loop: takes commands one after the other and runs turns.

use std::sync::Arc;
use std::time::Duration;

use protocol::{AgentCommand, Budget, Event, EventKind, Spending};
use sandbox::{Sandbox, SandboxSpec};
use store::{Journal, SessionStore};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tools::ToolSet;

use crate::approval::Approvals;
use crate::background::BackgroundWatcher;
use crate::budget::BudgetLedger;
use crate::checkpoint::WorkspaceSnapshot;
use crate::compaction::{check_can_compact, compact};
use crate::conversation::is_empty;
use crate::error::AgentError;
use crate::event_log::{EventLog, EventRecorder, EventSender};
use crate::listener::CommandListener;
use crate::models::{ChosenModel, ModelCatalog};
use crate::outputs::StoredOutputs;
use crate::permission::install_approvals;
use crate::redo::TurnRedo;
use crate::session_checkpoints::SessionCheckpoints;
use crate::session_model::{SessionModel, switch_model};
use crate::session_sandbox::SessionSandbox;
use crate::stopper::TurnStopper;
use crate::tool_runner::SessionTools;
use crate::undo::TurnUndo;
use crate::workspace_query::WorkspaceQueries;

/// Everything that a session needs to start.
#[derive(Debug)]
pub struct SessionSetup {
    pub store: SessionStore,
    pub journal: Journal,
    /// The session's events so far; none for a new session.
    pub history: Vec<Event>,
    /// The model of the first turn.
    pub model: ChosenModel,
    /// Finds other models by name.
    pub models: Arc<dyn ModelCatalog>,
    pub sandbox: SandboxSpec,
    /// A new set takes effect with the next turn.
    pub tools: watch::Receiver<ToolSet>,
    pub budget: Budget,
    /// How long the session may run.
    pub time_limit: Option<Duration>,
    /// What counts as already spent of budget and time. Zero unless earlier runs are to count.
    pub spent: Spending,
    /// Maximum tokens of one reply.
    pub max_tokens: u32,
    /// The rules, and whether a user can be asked.
    pub approvals: Approvals,
}

/// Serves commands until their sender is dropped, then ends the sandbox and returns. A turn in
/// progress at that moment is completed first.
pub async fn run(
    setup: SessionSetup,
    commands: mpsc::Receiver<AgentCommand>,
    events: mpsc::Sender<Event>,
) -> Result<(), AgentError> {
    let mut session = Session::open(setup, events).await?;
    let queries = WorkspaceQueries::new(
        session.recorder.sender().clone(),
        &session.checkpoints,
        session.sandbox.access(),
    );
    let broker = session.tools.broker.clone();
    let mut listener = CommandListener::new(commands, queries, broker);
    let outcome = session.serve(&mut listener).await;
    listener.end().await;
    session.tools.broker.close().await;
    session.tools.background.end().await;
    session.sandbox.end().await;
    outcome
}

/// A session. The methods here and in [`crate::turn`] and [`crate::run_calls`] coordinate its parts,
/// which do not know each other.
#[derive(Debug)]
pub(crate) struct Session {
    /// Talks to the model.
    pub(crate) model: SessionModel,
    /// Stores and sends events.
    pub(crate) recorder: EventRecorder,
    pub(crate) sandbox: SessionSandbox,
    pub(crate) tools: SessionTools,
    pub(crate) checkpoints: SessionCheckpoints,
}

impl Session {
    async fn open(setup: SessionSetup, events: mpsc::Sender<Event>) -> Result<Self, AgentError> {
        let session = setup.journal.session().clone();
        let sender = EventSender::new(session.clone(), events.clone());
        let log = EventLog::new(setup.journal, events);
        let mut spec = setup.sandbox;
        let broker = install_approvals(&mut spec, setup.approvals, sender.clone(), log.clone());
        let opening = EventKind::SessionStarted {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            workspace: spec.workspace.display().to_string(),
            model: setup.model.model.name().to_owned(),
            forked_from: None,
        };
        let sandbox = SessionSandbox::start(spec);
        let recorder = EventRecorder::new(log, sender.clone(), opening, &setup.history);
        let store = setup.store;
        let tools = setup.tools.borrow().clone();
        Ok(Self {
            model: SessionModel {
                chosen: setup.model,
                catalog: setup.models,
                definitions: tools.definitions(),
                system: Vec::new(),
                max_tokens: setup.max_tokens,
                ledger: BudgetLedger::new(setup.budget, setup.time_limit, setup.spent),
                started_at: Instant::now(),
            },
            tools: SessionTools {
                set: tools,
                latest: setup.tools,
                outputs: StoredOutputs {
                    store: store.clone(),
                    session: session.clone(),
                },
                background: BackgroundWatcher::new(sender, sandbox.access()),
                broker,
            },
            checkpoints: SessionCheckpoints::open(store, session, &recorder.conversation).await?,
            recorder,
            sandbox,
        })
    }

    async fn serve(&mut self, listener: &mut CommandListener) -> Result<(), AgentError> {
        loop {
            let is_ready = self.sandbox.is_ready();
            let (sender, model) = (self.recorder.sender(), &self.model.chosen);
            let command = tokio::select! {
                biased;
                ready = self.sandbox.wait_ready(sender, model), if !is_ready => {
                    ready?;
                    continue;
                }
                command = listener.next() => match command {
                    Some(command) => command,
                    None => return Ok(()),
                },
            };
            match self.handle_command(command, listener).await {
                Err(error) if error.is_refusal() => {
                    let reason = error.to_string();
                    self.recorder
                        .send(EventKind::CommandRefused { reason })
                        .await;
                }
                outcome => outcome?,
            }
        }
    }

    async fn handle_command(
        &mut self,
        command: AgentCommand,
        listener: &mut CommandListener,
    ) -> Result<(), AgentError> {
        match command {
            AgentCommand::Prompt { content } if content.iter().all(is_empty) => {
                Err(AgentError::NothingSaid)
            }
            AgentCommand::Prompt { content } => {
                let started = EventKind::TurnStarted {
                    turn: self.recorder.conversation.last_turn() + 1,
                    prompt: content,
                };
                self.start_turn(started, listener).await
            }
            AgentCommand::Continue => {
                let continued = self.continuation()?;
                self.start_turn(continued, listener).await
            }
            AgentCommand::Undo => self.undo().await,
            AgentCommand::Redo => self.redo().await,
            // No turn is running; only background commands can have open questions.
            AgentCommand::Interrupt => {
                self.tools.broker.withdraw_questions().await;
                Ok(())
            }
            AgentCommand::Compact => self.compact(listener).await,
            AgentCommand::UseModel { name } => {
                let (recorder, sandbox) = (&mut self.recorder, &mut self.sandbox);
                switch_model(&name, &mut self.model, recorder, sandbox).await
            }
            command @ (AgentCommand::AllowHost { .. } | AgentCommand::Decide { .. }) => {
                self.tools.broker.handle(command).await;
                Ok(())
            }
            // The listener has them answered.
            AgentCommand::ListFiles | AgentCommand::Diff => Ok(()),
        }
    }

    /// The event that continues the last turn, if it was cut short.
    fn continuation(&self) -> Result<EventKind, AgentError> {
        let conversation = &self.recorder.conversation;
        match conversation.undoable() {
            Some(turn) if conversation.can_continue() => Ok(EventKind::TurnContinued { turn }),
            _ => Err(AgentError::NothingToContinue),
        }
    }

    /// Runs a turn while listening to commands.
    async fn start_turn(
        &mut self,
        event: EventKind,
        listener: &mut CommandListener,
    ) -> Result<(), AgentError> {
        let stopper = TurnStopper::default();
        let deadline = self.model.deadline();
        let turn = self.run_turn(event, &stopper);
        listener.run_interruptible(turn, &stopper, deadline).await
    }

    async fn run_turn(
        &mut self,
        event: EventKind,
        stopper: &TurnStopper,
    ) -> Result<(), AgentError> {
        let turn = match &event {
            EventKind::TurnStarted { turn, .. } | EventKind::TurnContinued { turn } => *turn,
            _ => return Ok(()),
        };
        let is_continued = matches!(event, EventKind::TurnContinued { .. });
        self.tools.broker.start_turn();
        self.model.definitions = self.tools.update().definitions();
        self.recorder.record(event).await?;
        if is_continued && !self.recorder.conversation.awaits_reply() {
            let text = "Go on.".to_owned();
            self.recorder.record(EventKind::Noted { text }).await?;
        }
        let outcome = self.perform_turn(turn, stopper).await?;
        self.recorder
            .record(EventKind::TurnEnded {
                turn,
                outcome,
                spending: self.model.spending(),
            })
            .await?;
        let sandbox = self.ensure_sandbox().await?;
        let recorder = &mut self.recorder;
        self.checkpoints
            .record_after(turn, &sandbox, recorder)
            .await
    }

    /// Replaces the conversation by a summary while listening to commands.
    async fn compact(&mut self, listener: &mut CommandListener) -> Result<(), AgentError> {
        check_can_compact(&self.recorder.conversation, &self.model)?;
        let stopper = TurnStopper::default();
        let deadline = self.model.deadline();
        let work = async {
            let sandbox = self.ensure_sandbox().await?;
            let (model, spec) = (&mut self.model, self.sandbox.spec());
            model.ensure_system_prompt(spec, &sandbox).await;
            compact(model, &mut self.recorder, &stopper).await
        };
        listener.run_interruptible(work, &stopper, deadline).await
    }

    /// Undoes the last turn.
    async fn undo(&mut self) -> Result<(), AgentError> {
        // What can fail cleanly comes before the first change.
        let undo = TurnUndo::load(&self.checkpoints, &self.recorder.conversation).await?;
        let (sandbox, snapshot) = self.snapshot_now().await?;
        let recorder = &mut self.recorder;
        undo.perform(&self.checkpoints, &sandbox, &snapshot, recorder)
            .await
    }

    /// Reverts the last undo.
    async fn redo(&mut self) -> Result<(), AgentError> {
        let redo = TurnRedo::load(&self.checkpoints, &self.recorder.conversation).await?;
        let (sandbox, snapshot) = self.snapshot_now().await?;
        let recorder = &mut self.recorder;
        redo.perform(&self.checkpoints, &sandbox, &snapshot, recorder)
            .await
    }

    /// The running sandbox, when it has started and that is recorded.
    pub(crate) async fn ensure_sandbox(&mut self) -> Result<Arc<Sandbox>, AgentError> {
        let model = &self.model.chosen;
        self.sandbox.ensure(&mut self.recorder, model).await
    }

    /// A snapshot of the current files. Replaces the sandbox if it has died unnoticed since the last turn.
    async fn snapshot_now(&mut self) -> Result<(Arc<Sandbox>, WorkspaceSnapshot), AgentError> {
        let mut sandbox = self.ensure_sandbox().await?;
        let snapshot = match self.checkpoints.take_snapshot(&sandbox).await {
            Err(AgentError::Sandbox(error)) if error.is_final() => {
                drop(sandbox);
                self.sandbox.replace(&error).await;
                sandbox = self.ensure_sandbox().await?;
                self.checkpoints.take_snapshot(&sandbox).await?
            }
            snapshot => snapshot?,
        };
        Ok((sandbox, snapshot))
    }
}
