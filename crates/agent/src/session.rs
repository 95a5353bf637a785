//! The session loop: takes commands one after the other and runs turns.

use std::sync::Arc;
use std::time::Duration;

use protocol::{AgentCommand, Event, EventKind, Outcome, Spending};
use sandbox::SandboxSpec;
use store::{Journal, SessionStore};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tools::ToolSet;

use crate::approval::Approvals;
use crate::approval_broker::ApprovalBroker;
use crate::background::BackgroundWatcher;
use crate::baseline::Baseline;
use crate::budget::{Budget, BudgetLedger};
use crate::checkpoint::KnownFiles;
use crate::conversation::is_empty;
use crate::error::AgentError;
use crate::event_log::{EventLog, EventRecorder, EventSender};
use crate::listener::CommandListener;
use crate::models::{ChosenModel, ModelCatalog};
use crate::outputs::StoredOutputs;
use crate::permission::install_approvals;
use crate::session_sandbox::SessionSandbox;
use crate::stopper::{StopCause, TurnStopper};

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
    pub tools: ToolSet,
    pub budget: Budget,
    /// What counts as already spent of the budget. Zero unless earlier runs are to count.
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
    let mut listener = CommandListener::new(commands, session.queries(), session.broker.clone());
    let outcome = session.serve(&mut listener).await;
    listener.end().await;
    session.broker.close().await;
    session.background.end().await;
    session.sandbox.end().await;
    outcome
}

pub(crate) struct Session {
    pub(crate) recorder: EventRecorder,
    pub(crate) sender: EventSender,
    pub(crate) sandbox: SessionSandbox,
    pub(crate) store: SessionStore,
    pub(crate) outputs: StoredOutputs,
    pub(crate) model: ChosenModel,
    pub(crate) models: Arc<dyn ModelCatalog>,
    pub(crate) tools: ToolSet,
    pub(crate) definitions: Vec<protocol::ToolDefinition>,
    /// Built once the sandbox has started, because the system prompt describes it.
    pub(crate) system: Vec<String>,
    pub(crate) ledger: BudgetLedger,
    pub(crate) max_tokens: u32,
    pub(crate) started_at: Instant,
    /// The files as recorded by checkpoints.
    pub(crate) baseline: Arc<Baseline>,
    pub(crate) background: BackgroundWatcher,
    /// Whether the `Ready` event has been sent.
    pub(crate) is_ready: bool,
    pub(crate) broker: Arc<ApprovalBroker>,
}

impl Session {
    async fn open(setup: SessionSetup, events: mpsc::Sender<Event>) -> Result<Self, AgentError> {
        let sender = EventSender::new(setup.journal.session().clone(), events.clone());
        let mut sandbox = setup.sandbox;
        let log = EventLog::new(setup.journal, events);
        let broker = install_approvals(&mut sandbox, setup.approvals, sender.clone(), log.clone());
        let sandbox = SessionSandbox::start(sandbox);
        let opening = EventKind::SessionStarted {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            workspace: sandbox.spec().workspace.display().to_string(),
            model: setup.model.model.name().to_owned(),
            forked_from: None,
        };
        let recorder = EventRecorder::new(log, opening, &setup.history);
        let known = match recorder.conversation.last_checkpoint() {
            0 => KnownFiles::default(),
            number => KnownFiles::load(&setup.store, sender.session(), number).await?,
        };
        let first = recorder.conversation.first_checkpoint().cloned();
        Ok(Self {
            baseline: Arc::new(Baseline::new(first, known)),
            background: BackgroundWatcher::new(sender.clone(), sandbox.access()),
            outputs: StoredOutputs {
                store: setup.store.clone(),
                session: sender.session().clone(),
            },
            sender,
            recorder,
            sandbox,
            store: setup.store,
            model: setup.model,
            models: setup.models,
            definitions: setup.tools.definitions(),
            tools: setup.tools,
            system: Vec::new(),
            ledger: BudgetLedger::new(setup.budget, setup.spent),
            max_tokens: setup.max_tokens,
            started_at: Instant::now(),
            is_ready: false,
            broker,
        })
    }

    async fn serve(&mut self, listener: &mut CommandListener) -> Result<(), AgentError> {
        loop {
            let is_ready = self.is_ready;
            let command = tokio::select! {
                biased;
                started = self.wait_ready(), if !is_ready => {
                    started?;
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
                    self.sender.send(EventKind::CommandRefused { reason }).await;
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
            // No turn is running; only background commands can have open questions.
            AgentCommand::Interrupt => {
                self.broker.withdraw_questions().await;
                Ok(())
            }
            AgentCommand::Redo => self.redo().await,
            AgentCommand::Compact => self.compact(listener).await,
            AgentCommand::UseModel { name } => self.use_model(&name).await,
            command @ (AgentCommand::AllowHost { .. } | AgentCommand::Decide { .. }) => {
                self.broker.handle(command).await;
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
        let deadline = self.deadline();
        let turn = self.turn(event, &stopper);
        listener.run_interruptible(turn, &stopper, deadline).await
    }

    /// When the budget's time runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ledger.time_left().map(|time| self.started_at + time)
    }

    async fn turn(&mut self, event: EventKind, stopper: &TurnStopper) -> Result<(), AgentError> {
        let turn = match &event {
            EventKind::TurnStarted { turn, .. } | EventKind::TurnContinued { turn } => *turn,
            _ => return Ok(()),
        };
        let is_continued = matches!(event, EventKind::TurnContinued { .. });
        self.broker.start_turn();
        self.recorder.record(event).await?;
        if is_continued && !self.recorder.conversation.awaits_reply() {
            let text = "Go on.".to_owned();
            self.recorder.record(EventKind::Noted { text }).await?;
        }
        let outcome = self.perform_turn(turn, stopper).await?;
        let spending = self.ledger.spending(self.started_at.elapsed());
        self.recorder
            .record(EventKind::TurnEnded {
                turn,
                outcome,
                spending,
            })
            .await?;
        self.checkpoint_after_turn(turn).await
    }

    /// How the turn ends if it was told to stop.
    pub(crate) fn stop_outcome(&self, stopper: &TurnStopper) -> Option<Outcome> {
        stopper.cause().map(|cause| match cause {
            StopCause::Interrupted => Outcome::Interrupted,
            StopCause::OutOfTime => self.ledger.out_of_time(),
        })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.started_at.elapsed()
    }
}
