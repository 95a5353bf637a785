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
    door: watch::Sender<Option<SharedSandbox>>,
}

#[derive(Debug)]
enum SandboxState {
    Starting(JoinHandle<Result<Sandbox, SandboxError>>),
    Standing {
        sandbox: Arc<Sandbox>,
        /// Whether its start is recorded.
        is_known: bool,
    },
    Gone,
}

impl SessionSandbox {
    /// Starts the sandbox without waiting for it.
    pub(crate) fn start(spec: SandboxSpec) -> Self {
        Self {
            state: SandboxState::Starting(tokio::spawn(Sandbox::start(spec.clone()))),
            spec,
            door: watch::Sender::new(None),
        }
    }

    /// Waits until the sandbox has started. Cancel safe.
    pub(crate) async fn stand(&mut self) -> Result<Arc<Sandbox>, AgentError> {
        match &mut self.state {
            SandboxState::Standing { sandbox, .. } => Ok(sandbox.clone()),
            SandboxState::Starting(start) => {
                let started = start.await;
                self.state = SandboxState::Gone;
                let sandbox = Arc::new(started.map_err(|_| AgentError::Lost)??);
                self.door
                    .send_replace(Some(SharedSandbox::new(sandbox.clone())));
                self.state = SandboxState::Standing {
                    sandbox: sandbox.clone(),
                    is_known: false,
                };
                Ok(sandbox)
            }
            SandboxState::Gone => Err(SandboxError::Ended.into()),
        }
    }

    /// The same; and whether the sandbox is new and its start has to be recorded.
    pub(crate) async fn sandbox(&mut self) -> Result<(Arc<Sandbox>, bool), AgentError> {
        let sandbox = self.stand().await?;
        let is_new = match &mut self.state {
            SandboxState::Standing { is_known, .. } => !std::mem::replace(is_known, true),
            _ => false,
        };
        Ok((sandbox, is_new))
    }

    /// Access for work beside the turn.
    pub(crate) fn visits(&self) -> SandboxAccess {
        SandboxAccess::new(self.door.subscribe())
    }

    /// Ends a failed sandbox and starts another. Returns why the old one failed, as far as that is
    /// known.
    pub(crate) async fn replace(&mut self, error: &SandboxError) -> String {
        let kills = match std::mem::replace(&mut self.state, SandboxState::Gone) {
            SandboxState::Standing { sandbox, .. } => self.clear(sandbox).await,
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
            SandboxState::Standing { sandbox, .. } => {
                self.clear(sandbox).await;
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
    async fn clear(&self, sandbox: Arc<Sandbox>) -> u64 {
        if let Some(door) = self.door.send_replace(None) {
            door.close().await;
        }
        match Arc::try_unwrap(sandbox) {
            Ok(sandbox) => sandbox.end().await.memory_kills,
            Err(_) => 0,
        }
    }

    /// The event that records the sandbox.
    pub(crate) fn started(&self, sandbox: &Sandbox, replaces: Option<String>) -> EventKind {
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
