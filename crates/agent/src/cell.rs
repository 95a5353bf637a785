//! The one sandbox of a session: started beside everything else, shared by all calls, replaced
//! when it breaks.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::EventKind;
use sandbox::{Network, Sandbox, SandboxError, SandboxSpec, limits};
use tokio::task::JoinHandle;

use crate::error::AgentError;

#[derive(Debug)]
pub(crate) struct Cell {
    spec: SandboxSpec,
    state: State,
}

#[derive(Debug)]
enum State {
    Starting(JoinHandle<Result<Sandbox, SandboxError>>),
    Standing(Arc<Sandbox>),
    Gone,
}

impl Cell {
    /// Begins to start the sandbox, and does not wait for it.
    pub(crate) fn start(spec: SandboxSpec) -> Self {
        Self {
            state: State::Starting(tokio::spawn(Sandbox::start(spec.clone()))),
            spec,
        }
    }

    /// The sandbox, as soon as it stands; and whether this is the first look at it.
    pub(crate) async fn sandbox(&mut self) -> Result<(Arc<Sandbox>, bool), AgentError> {
        match &mut self.state {
            State::Standing(sandbox) => Ok((sandbox.clone(), false)),
            State::Starting(start) => {
                let started = start.await;
                self.state = State::Gone;
                let sandbox = Arc::new(started.map_err(|_| AgentError::Lost)??);
                self.state = State::Standing(sandbox.clone());
                Ok((sandbox, true))
            }
            State::Gone => Err(SandboxError::Ended.into()),
        }
    }

    /// Gives up a broken sandbox and begins to start another. Says why the old one broke, as
    /// far as that can be known.
    pub(crate) async fn replace(&mut self, error: &SandboxError) -> String {
        let kills = match std::mem::replace(&mut self.state, State::Gone) {
            State::Standing(sandbox) => end(sandbox).await,
            _ => 0,
        };
        self.state = State::Starting(tokio::spawn(Sandbox::start(self.spec.clone())));
        match kills {
            0 => format!("the sandbox broke: {error}"),
            _ => format!(
                "the memory limit of {} was reached",
                limits::bytes(self.spec.limits.memory)
            ),
        }
    }

    pub(crate) async fn end(self) {
        match self.state {
            State::Standing(sandbox) => {
                end(sandbox).await;
            }
            State::Starting(start) => {
                if let Ok(Ok(sandbox)) = start.await {
                    sandbox.end().await;
                }
            }
            State::Gone => {}
        }
    }

    /// The event that tells of the sandbox.
    pub(crate) fn started(&self, sandbox: &Sandbox, replaces: Option<String>) -> EventKind {
        let description = sandbox.description();
        let limits = description.limits.iter().map(|limit| {
            let enforced = format!("{} by {}", limit.value, limit.enforcer);
            (limit.limit.name().to_owned(), enforced)
        });
        EventKind::SandboxStarted {
            backend: description.backend.to_owned(),
            walls: description.walls.clone(),
            network: self.network(),
            limits: limits.collect::<BTreeMap<_, _>>(),
            replaces,
        }
    }

    pub(crate) fn network(&self) -> Vec<String> {
        match &self.spec.network {
            Network::Off => Vec::new(),
            Network::Allow(allow) => allow.rules().iter().map(ToString::to_string).collect(),
        }
    }

    pub(crate) fn spec(&self) -> &SandboxSpec {
        &self.spec
    }
}

/// Ends the sandbox if nobody else uses it any more; otherwise it ends when they let go.
async fn end(sandbox: Arc<Sandbox>) -> u64 {
    match Arc::try_unwrap(sandbox) {
        Ok(sandbox) => sandbox.end().await.memory_kills,
        Err(_) => 0,
    }
}
