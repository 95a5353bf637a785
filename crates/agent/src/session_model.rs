//! The model of a session, with what every request to it has in common, and the budget that requests
//! are charged to. Entry type: [`SessionModel`].

use std::sync::Arc;

use protocol::{EventKind, Outcome, Spending, ToolDefinition, Usage};
use sandbox::{Sandbox, SandboxSpec};
use tokio::time::Instant;

use crate::budget::BudgetLedger;
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::models::{ChosenModel, ModelCatalog};
use crate::project_instructions::read_project_instructions;
use crate::prompt::{self, PromptEnvironment};
use crate::session_sandbox::SessionSandbox;
use crate::stopper::{StopCause, TurnStopper};

#[derive(Debug)]
pub(crate) struct SessionModel {
    pub(crate) chosen: ChosenModel,
    pub(crate) catalog: Arc<dyn ModelCatalog>,
    /// The tools that the model can call.
    pub(crate) definitions: Vec<ToolDefinition>,
    /// Empty until the sandbox has started, because the system prompt describes it.
    pub(crate) system: Vec<String>,
    /// Maximum tokens of one reply.
    pub(crate) max_tokens: u32,
    pub(crate) ledger: BudgetLedger,
    /// When this run of the session started.
    pub(crate) started_at: Instant,
}

impl SessionModel {
    /// Builds the system prompt, unless there is one.
    pub(crate) async fn ensure_system_prompt(&mut self, spec: &SandboxSpec, sandbox: &Sandbox) {
        if !self.system.is_empty() {
            return;
        }
        let network = spec.network.open();
        let instructions = read_project_instructions(sandbox).await;
        let environment = PromptEnvironment {
            spec,
            backend: sandbox.info().backend,
            root: sandbox.root(),
            network: &network,
        };
        self.system = prompt::system(&environment, &instructions);
    }

    /// Uses another model from the next request on. Never called in the middle of a turn.
    fn choose(&mut self, name: &str) -> Result<(), AgentError> {
        let refuse = |reason: String| AgentError::NoModel {
            name: name.to_owned(),
            reason,
        };
        let chosen = self.catalog.choose(name, 0).map_err(refuse)?;
        if self.ledger.has_cost_limit() && !chosen.price.is_known() {
            let reason = "its price is unknown, so the cost limit cannot be enforced";
            return Err(refuse(reason.to_owned()));
        }
        self.chosen = chosen;
        Ok(())
    }

    /// Adds a request to the ledger and returns its cost.
    pub(crate) fn charge(&mut self, usage: Usage) -> Option<f64> {
        let cost = self.chosen.price.of(&usage);
        self.ledger.add_request(usage, cost);
        cost
    }

    pub(crate) fn spending(&self) -> Spending {
        self.ledger.spending(self.started_at.elapsed())
    }

    /// When the budget's time runs out.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.ledger.time_left().map(|time| self.started_at + time)
    }

    /// How a turn ends if there is no budget for another request.
    pub(crate) fn exceeded(&self) -> Option<Outcome> {
        self.ledger.exceeded(self.started_at.elapsed())
    }

    /// How a turn ends if it is to stop.
    pub(crate) fn stop_outcome(&self, stopper: &TurnStopper) -> Option<Outcome> {
        stopper.cause().map(|cause| match cause {
            StopCause::Interrupted => Outcome::Interrupted,
            StopCause::OutOfTime => self.ledger.out_of_time(),
        })
    }
}

/// Changes the model of a session. Before the first turn, nothing is recorded yet: the session then
/// starts with that model, and `Ready` is sent again.
pub(crate) async fn switch_model(
    name: &str,
    model: &mut SessionModel,
    recorder: &mut EventRecorder,
    sandbox: &mut SessionSandbox,
) -> Result<(), AgentError> {
    model.choose(name)?;
    let chosen = &model.chosen;
    let own_name = chosen.model.name().to_owned();
    if let Some(EventKind::SessionStarted { model, .. }) = recorder.opening() {
        *model = own_name;
        return sandbox.announce_model(recorder.sender(), chosen).await;
    }
    let changed = EventKind::ModelChanged {
        model: own_name,
        window: chosen.window,
    };
    recorder.record(changed).await
}
