//! The session loop: takes commands one after the other and runs turns.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Command, Event, EventKind, Outcome, Spending};
use sandbox::SandboxSpec;
use store::{Journal, Store};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tools::ToolSet;

use crate::approval::Approvals;
use crate::background::Background;
use crate::baseline::Baseline;
use crate::budget::{Budget, Ledger};
use crate::cell::Cell;
use crate::checkpoint::Known;
use crate::conversation::is_empty;
use crate::error::AgentError;
use crate::listener::Listener;
use crate::models::{Chosen, Models};
use crate::outputs::StoredOutputs;
use crate::permission::introduce;
use crate::person::Person;
use crate::scribe::{EventLog, Scribe, Teller};
use crate::stopper::{Cause, Stopper};

/// Everything that a session needs to start.
#[derive(Debug)]
pub struct Setup {
    pub store: Store,
    pub journal: Journal,
    /// The session's events so far; none for a new session.
    pub history: Vec<Event>,
    /// The model of the first turn.
    pub model: Chosen,
    /// Finds other models by name.
    pub models: Arc<dyn Models>,
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
    setup: Setup,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
) -> Result<(), AgentError> {
    let mut session = Session::open(setup, events).await?;
    let mut listener = Listener::new(commands, session.inquiries(), session.person.clone());
    let served = session.serve(&mut listener).await;
    listener.end().await;
    session.person.leave().await;
    session.background.end().await;
    session.cell.end().await;
    served
}

pub(crate) struct Session {
    pub(crate) scribe: Scribe,
    pub(crate) teller: Teller,
    pub(crate) cell: Cell,
    pub(crate) store: Store,
    pub(crate) outputs: StoredOutputs,
    pub(crate) model: Chosen,
    pub(crate) models: Arc<dyn Models>,
    pub(crate) tools: ToolSet,
    pub(crate) definitions: Vec<protocol::ToolDefinition>,
    /// Built once the sandbox has started, because the system prompt describes it.
    pub(crate) system: Vec<String>,
    pub(crate) ledger: Ledger,
    pub(crate) max_tokens: u32,
    pub(crate) begun: Instant,
    /// The files as recorded by checkpoints.
    pub(crate) baseline: Arc<Baseline>,
    pub(crate) background: Background,
    /// Whether the `Ready` event has been sent.
    pub(crate) is_ready: bool,
    pub(crate) person: Arc<Person>,
}

impl Session {
    async fn open(setup: Setup, events: mpsc::Sender<Event>) -> Result<Self, AgentError> {
        let teller = Teller::new(setup.journal.session().clone(), events.clone());
        let mut sandbox = setup.sandbox;
        let log = EventLog::new(setup.journal, events);
        let person = introduce(&mut sandbox, setup.approvals, teller.clone(), log.clone());
        let cell = Cell::start(sandbox);
        let opening = EventKind::SessionStarted {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            workspace: cell.spec().workspace.display().to_string(),
            model: setup.model.model.name().to_owned(),
            forked_from: None,
        };
        let scribe = Scribe::new(log, opening, &setup.history);
        let known = match scribe.conversation.last_checkpoint() {
            0 => Known::default(),
            number => Known::load(&setup.store, teller.session(), number).await?,
        };
        let first = scribe.conversation.first_checkpoint().cloned();
        Ok(Self {
            baseline: Arc::new(Baseline::new(first, known)),
            background: Background::new(teller.clone(), cell.visits()),
            outputs: StoredOutputs {
                store: setup.store.clone(),
                session: teller.session().clone(),
            },
            teller,
            scribe,
            cell,
            store: setup.store,
            model: setup.model,
            models: setup.models,
            definitions: setup.tools.definitions(),
            tools: setup.tools,
            system: Vec::new(),
            ledger: Ledger::new(setup.budget, setup.spent),
            max_tokens: setup.max_tokens,
            begun: Instant::now(),
            is_ready: false,
            person,
        })
    }

    async fn serve(&mut self, listener: &mut Listener) -> Result<(), AgentError> {
        loop {
            let is_ready = self.is_ready;
            let command = tokio::select! {
                biased;
                stood = self.stand(), if !is_ready => {
                    stood?;
                    continue;
                }
                command = listener.next() => match command {
                    Some(command) => command,
                    None => return Ok(()),
                },
            };
            match self.obey(command, listener).await {
                Err(error) if error.is_refusal() => {
                    let reason = error.to_string();
                    self.teller.tell(EventKind::CommandRefused { reason }).await;
                }
                outcome => outcome?,
            }
        }
    }

    async fn obey(&mut self, command: Command, listener: &mut Listener) -> Result<(), AgentError> {
        match command {
            Command::Prompt { content } if content.iter().all(is_empty) => {
                Err(AgentError::NothingSaid)
            }
            Command::Prompt { content } => {
                let started = EventKind::TurnStarted {
                    turn: self.scribe.conversation.last_turn() + 1,
                    prompt: content,
                };
                self.begin(started, listener).await
            }
            Command::Continue => {
                let continued = self.continuation()?;
                self.begin(continued, listener).await
            }
            Command::Undo => self.undo().await,
            // No turn is running; only background commands can have open questions.
            Command::Interrupt => {
                self.person.withdraw().await;
                Ok(())
            }
            Command::Redo => self.redo().await,
            Command::Compact => self.compact(listener).await,
            Command::UseModel { name } => self.use_model(&name).await,
            command @ (Command::AllowHost { .. } | Command::Decide { .. }) => {
                self.person.hear(command).await;
                Ok(())
            }
            // The listener has them answered.
            Command::ListFiles | Command::Diff => Ok(()),
        }
    }

    /// The event that continues the last turn, if it was cut short.
    fn continuation(&self) -> Result<EventKind, AgentError> {
        let conversation = &self.scribe.conversation;
        match conversation.undoable() {
            Some(turn) if conversation.can_continue() => Ok(EventKind::TurnContinued { turn }),
            _ => Err(AgentError::NothingToContinue),
        }
    }

    /// Runs a turn while listening to commands.
    async fn begin(&mut self, event: EventKind, listener: &mut Listener) -> Result<(), AgentError> {
        let stopper = Stopper::default();
        let deadline = self.deadline();
        let turn = self.turn(event, &stopper);
        listener.attend(turn, &stopper, deadline).await
    }

    /// When the budget's time runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ledger.time_left().map(|time| self.begun + time)
    }

    async fn turn(&mut self, event: EventKind, stopper: &Stopper) -> Result<(), AgentError> {
        let turn = match &event {
            EventKind::TurnStarted { turn, .. } | EventKind::TurnContinued { turn } => *turn,
            _ => return Ok(()),
        };
        let is_continued = matches!(event, EventKind::TurnContinued { .. });
        self.person.begin_turn();
        self.scribe.record(event).await?;
        if is_continued && !self.scribe.conversation.awaits_reply() {
            let text = "Go on.".to_owned();
            self.scribe.record(EventKind::Noted { text }).await?;
        }
        let outcome = self.perform(turn, stopper).await?;
        let spending = self.ledger.spending(self.begun.elapsed());
        self.scribe
            .record(EventKind::TurnEnded {
                turn,
                outcome,
                spending,
            })
            .await?;
        self.conclude(turn).await
    }

    /// How the turn ends if it was told to stop.
    pub(crate) fn stopped(&self, stopper: &Stopper) -> Option<Outcome> {
        stopper.cause().map(|cause| match cause {
            Cause::Interrupted => Outcome::Interrupted,
            Cause::OutOfTime => self.ledger.out_of_time(),
        })
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }
}
