//! A session's life: takes commands one after the other, and performs turns.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use llm::Model;
use protocol::{Command, Event, EventKind, Outcome, Spending, Usage};
use sandbox::{Sandbox, SandboxSpec};
use store::{Journal, Store};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tools::ToolSet;

use crate::budget::{Budget, Ledger};
use crate::cell::Cell;
use crate::checkpoint::Known;
use crate::conversation::is_empty;
use crate::error::AgentError;
use crate::outputs::StoredOutputs;
use crate::prompt;
use crate::scribe::{Scribe, Teller};
use crate::stopper::{Cause, Stopper};

/// Everything that a session is made of.
#[derive(Debug)]
pub struct Setup {
    pub store: Store,
    pub journal: Journal,
    /// The session's events so far; none for a new session.
    pub history: Vec<Event>,
    pub model: Arc<dyn Model>,
    /// What usage costs, in US dollars, if that is known.
    pub price: Price,
    pub sandbox: SandboxSpec,
    pub tools: ToolSet,
    pub budget: Budget,
    /// What counts as spent of it before the start; nothing, unless earlier runs are to count.
    pub spent: Spending,
    /// Most tokens of one reply.
    pub max_tokens: u32,
}

type Cost = dyn Fn(&Usage) -> Option<f64> + Send + Sync;

/// From usage to US dollars.
#[derive(Clone)]
pub struct Price(pub Arc<Cost>);

impl std::fmt::Debug for Price {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Price")
    }
}

/// Serves commands until their sender is dropped; then ends the sandbox and returns. A turn
/// that is under way at that moment is performed to its end.
pub async fn run(
    setup: Setup,
    mut commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<Event>,
) -> Result<(), AgentError> {
    let mut session = Session::open(setup, events).await?;
    let served = session.serve(&mut commands).await;
    session.cell.end().await;
    served
}

pub(crate) struct Session {
    pub(crate) scribe: Scribe,
    pub(crate) teller: Teller,
    pub(crate) cell: Cell,
    pub(crate) store: Store,
    pub(crate) outputs: StoredOutputs,
    pub(crate) model: Arc<dyn Model>,
    pub(crate) price: Price,
    pub(crate) tools: ToolSet,
    pub(crate) definitions: Vec<protocol::ToolDefinition>,
    /// Made when the sandbox stands, because it tells of it.
    pub(crate) system: Vec<String>,
    pub(crate) ledger: Ledger,
    pub(crate) max_tokens: u32,
    pub(crate) begun: Instant,
    /// The files as the last checkpoint saw them.
    pub(crate) known: Arc<Known>,
}

impl Session {
    async fn open(setup: Setup, events: mpsc::Sender<Event>) -> Result<Self, AgentError> {
        let cell = Cell::start(setup.sandbox);
        let is_new = setup.history.is_empty();
        let mut scribe = Scribe::new(setup.journal, &setup.history, events);
        let teller = scribe.teller();
        if is_new {
            scribe
                .record(EventKind::SessionStarted {
                    release: env!("CARGO_PKG_VERSION").to_owned(),
                    workspace: cell.spec().workspace.display().to_string(),
                    model: setup.model.name().to_owned(),
                    forked_from: None,
                })
                .await?;
        }
        let known = match scribe.conversation.last_checkpoint() {
            0 => Known::default(),
            number => Known::load(&setup.store, teller.session(), number).await?,
        };
        Ok(Self {
            outputs: StoredOutputs {
                store: setup.store.clone(),
                session: teller.session().clone(),
            },
            teller,
            scribe,
            cell,
            store: setup.store,
            model: setup.model,
            price: setup.price,
            definitions: setup.tools.definitions(),
            tools: setup.tools,
            system: Vec::new(),
            ledger: Ledger::new(setup.budget, setup.spent),
            max_tokens: setup.max_tokens,
            begun: Instant::now(),
            known: Arc::new(known),
        })
    }

    async fn serve(&mut self, commands: &mut mpsc::Receiver<Command>) -> Result<(), AgentError> {
        let mut waiting = VecDeque::new();
        loop {
            let command = match waiting.pop_front() {
                Some(command) => command,
                None => match commands.recv().await {
                    Some(command) => command,
                    None => return Ok(()),
                },
            };
            match self.obey(command, commands, &mut waiting).await {
                Err(error) if error.is_refusal() => {
                    let reason = error.to_string();
                    self.teller.tell(EventKind::CommandRefused { reason }).await;
                }
                outcome => outcome?,
            }
        }
    }

    async fn obey(
        &mut self,
        command: Command,
        commands: &mut mpsc::Receiver<Command>,
        waiting: &mut VecDeque<Command>,
    ) -> Result<(), AgentError> {
        match command {
            Command::Prompt { content } if content.iter().all(is_empty) => {
                Err(AgentError::NothingSaid)
            }
            Command::Prompt { content } => {
                let started = EventKind::TurnStarted {
                    turn: self.scribe.conversation.last_turn() + 1,
                    prompt: content,
                };
                self.begin(started, commands, waiting).await
            }
            Command::Continue => {
                let continued = self.continuation()?;
                self.begin(continued, commands, waiting).await
            }
            Command::Undo => self.undo().await,
            // Nothing is under way.
            Command::Interrupt => Ok(()),
            Command::Redo
            | Command::Compact
            | Command::UseModel { .. }
            | Command::AllowHost { .. }
            | Command::Decide { .. }
            | Command::ListFiles
            | Command::Diff => Ok(()),
        }
    }

    /// How to take up the last turn, if it was cut short.
    fn continuation(&self) -> Result<EventKind, AgentError> {
        let conversation = &self.scribe.conversation;
        match conversation.undoable() {
            Some(turn) if conversation.can_continue() => Ok(EventKind::TurnContinued { turn }),
            _ => Err(AgentError::NothingToContinue),
        }
    }

    /// Performs a turn, while it listens to commands.
    async fn begin(
        &mut self,
        event: EventKind,
        commands: &mut mpsc::Receiver<Command>,
        waiting: &mut VecDeque<Command>,
    ) -> Result<(), AgentError> {
        let stopper = Stopper::default();
        let deadline = self.ledger.time_left().map(|time| self.begun + time);
        let over = async {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let mut over = pin!(over);
        let mut turn = pin!(self.turn(event, &stopper));
        let mut is_open = true;
        loop {
            tokio::select! {
                biased;
                outcome = &mut turn => return outcome,
                command = commands.recv(), if is_open => match command {
                    Some(Command::Interrupt) => stopper.stop(Cause::Interrupted),
                    Some(command) => waiting.push_back(command),
                    None => is_open = false,
                },
                () = &mut over, if stopper.cause().is_none() => stopper.stop(Cause::OutOfTime),
            }
        }
    }

    async fn turn(&mut self, event: EventKind, stopper: &Stopper) -> Result<(), AgentError> {
        let turn = match &event {
            EventKind::TurnStarted { turn, .. } | EventKind::TurnContinued { turn } => *turn,
            _ => return Ok(()),
        };
        let is_continued = matches!(event, EventKind::TurnContinued { .. });
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

    /// The sandbox, standing. Tells of it when it is new, and tells the model of it too.
    pub(crate) async fn sandbox(
        &mut self,
        replaces: Option<String>,
    ) -> Result<Arc<Sandbox>, AgentError> {
        let (sandbox, is_new) = self.cell.sandbox().await?;
        if is_new {
            let started = self.cell.started(&sandbox, replaces);
            self.scribe.record(started).await?;
        }
        if self.system.is_empty() {
            let backend = sandbox.description().backend;
            let network = self.cell.network();
            let advice = advice(&sandbox).await;
            self.system = prompt::system(self.cell.spec(), backend, &network, &advice);
        }
        Ok(sandbox)
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

/// The project's AGENTS.md, as far as it is read; nothing when there is none.
async fn advice(sandbox: &Sandbox) -> String {
    let read = sandbox.read_file("AGENTS.md", 0, Some(prompt::LONGEST_ADVICE));
    match read.await {
        Ok((metadata, content)) => {
            let mut advice = String::from_utf8_lossy(&content).into_owned();
            if metadata.size > prompt::LONGEST_ADVICE {
                advice.push_str("\n[the rest is left out: read the file for it]");
            }
            advice
        }
        Err(_) => String::new(),
    }
}
