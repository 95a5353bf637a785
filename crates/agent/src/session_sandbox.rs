//! The sandbox of a session: started concurrently, shared by all calls, replaced when it fails. Never
//! ended while something still uses it.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::EventKind;
use sandbox::{Sandbox, SandboxError, SandboxSpec, limits};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::AgentError;
use crate::sandbox_access::{SandboxAccess, SharedSandbox};

#[derive(Debug)]
pub(crate) struct SessionSandbox {
    spec: SandboxSpec,
    state: SandboxState,
    /// Access for work beside the turn.
    shared: watch::Sender<Option<SharedSandbox>>,
}

#[derive(Debug)]
enum SandboxState {
    Starting(JoinHandle<Result<Sandbox, SandboxError>>),
    Running {
        sandbox: Arc<Sandbox>,
        /// Whether its start is recorded.
        is_recorded: bool,
    },
    Gone,
}

impl SessionSandbox {
    /// Starts the sandbox without waiting for it.
    pub(crate) fn start(spec: SandboxSpec) -> Self {
        Self {
            state: SandboxState::Starting(tokio::spawn(Sandbox::start(spec.clone()))),
            spec,
            shared: watch::Sender::new(None),
        }
    }

    /// Waits until the sandbox has started. Cancel safe.
    pub(crate) async fn wait_started(&mut self) -> Result<Arc<Sandbox>, AgentError> {
        match &mut self.state {
            SandboxState::Running { sandbox, .. } => Ok(sandbox.clone()),
            SandboxState::Starting(start) => {
                let started = start.await;
                self.state = SandboxState::Gone;
                let sandbox = Arc::new(started.map_err(|_| AgentError::Lost)??);
                self.shared
                    .send_replace(Some(SharedSandbox::new(sandbox.clone())));
                self.state = SandboxState::Running {
                    sandbox: sandbox.clone(),
                    is_recorded: false,
                };
                Ok(sandbox)
            }
            SandboxState::Gone => Err(SandboxError::Ended.into()),
        }
    }

    /// Whether the start of the running sandbox has yet to be recorded. True once per sandbox.
    pub(crate) fn take_unrecorded(&mut self) -> bool {
        match &mut self.state {
            SandboxState::Running { is_recorded, .. } => !std::mem::replace(is_recorded, true),
            SandboxState::Starting(_) | SandboxState::Gone => false,
        }
    }

    /// Access for work beside the turn.
    pub(crate) fn access(&self) -> SandboxAccess {
        SandboxAccess::new(self.shared.subscribe())
    }

    /// Ends a failed sandbox and starts another. Returns why the old one failed, as far as that is
    /// known.
    pub(crate) async fn replace(&mut self, error: &SandboxError) -> String {
        let kills = match std::mem::replace(&mut self.state, SandboxState::Gone) {
            SandboxState::Running { sandbox, .. } => self.close(sandbox).await,
            _ => 0,
        };
        self.state = SandboxState::Starting(tokio::spawn(Sandbox::start(self.spec.clone())));
        match kills {
            0 => format!("the sandbox broke: {error}"),
            _ => format!(
                "the memory limit of {} was reached",
                limits::bytes(self.spec.limits.memory)
            ),
        }
    }

    pub(crate) async fn end(mut self) {
        match std::mem::replace(&mut self.state, SandboxState::Gone) {
            SandboxState::Running { sandbox, .. } => {
                self.close(sandbox).await;
            }
            SandboxState::Starting(start) => {
                if let Ok(Ok(sandbox)) = start.await {
                    sandbox.end().await;
                }
            }
            SandboxState::Gone => {}
        }
    }

    /// Revokes access and ends the sandbox if nothing else uses it; otherwise it ends with its last
    /// reference. Returns the number of out-of-memory kills.
    async fn close(&self, sandbox: Arc<Sandbox>) -> u64 {
        if let Some(shared) = self.shared.send_replace(None) {
            shared.close().await;
        }
        match Arc::try_unwrap(sandbox) {
            Ok(sandbox) => sandbox.end().await.memory_kills,
            Err(_) => 0,
        }
    }

    /// The event that records the sandbox.
    pub(crate) fn started_event(&self, sandbox: &Sandbox, replaces: Option<String>) -> EventKind {
        let description = sandbox.description();
        let limits = description.limits.iter().map(|limit| {
            let enforced = format!("{} by {}", limit.value, limit.enforcer);
            (limit.limit.name().to_owned(), enforced)
        });
        EventKind::SandboxStarted {
            backend: description.backend.to_owned(),
            strength: description.strength().name().to_owned(),
            reason: description.reason.clone(),
            walls: description.walls.clone(),
            network: self.network(),
            limits: limits.collect::<BTreeMap<_, _>>(),
            replaces,
        }
    }

    pub(crate) fn network(&self) -> Vec<String> {
        self.spec.network.open()
    }

    pub(crate) fn spec(&self) -> &SandboxSpec {
        &self.spec
    }
}
