//! The sandbox of a session: started concurrently, announced when it runs, recorded when it is first
//! used, shared by all calls, replaced when it fails. Never ended while something still uses it. Entry
//! type: [`SessionSandbox`].

use std::sync::Arc;

use protocol::{EventKind, SandboxInfo};
use sandbox::{Sandbox, SandboxError, SandboxSpec, limits};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::warn;

use crate::error::AgentError;
use crate::event_log::{EventRecorder, EventSender};
use crate::models::ChosenModel;
use crate::sandbox_access::{SandboxAccess, SharedSandbox};

#[derive(Debug)]
pub(crate) struct SessionSandbox {
    spec: SandboxSpec,
    state: SandboxState,
    /// Whether the `Ready` event has been sent.
    is_ready: bool,
    /// Why the previous sandbox was replaced, until that is recorded.
    replaces: Option<String>,
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
            is_ready: false,
            replaces: None,
            shared: watch::Sender::new(None),
        }
    }

    /// The sandbox, when it has started. Announces the first one, and records the start of each.
    pub(crate) async fn ensure(
        &mut self,
        recorder: &mut EventRecorder,
        model: &ChosenModel,
    ) -> Result<Arc<Sandbox>, AgentError> {
        let sandbox = self.wait_ready(recorder.sender(), model).await?;
        if self.take_unrecorded() {
            let replaces = self.replaces.take();
            recorder
                .record(self.started_event(&sandbox, replaces))
                .await?;
        }
        Ok(sandbox)
    }

    /// Waits until the sandbox has started, and announces the first one. Cancel safe.
    pub(crate) async fn wait_ready(
        &mut self,
        sender: &EventSender,
        model: &ChosenModel,
    ) -> Result<Arc<Sandbox>, AgentError> {
        let sandbox = self.wait_started().await?;
        if !self.is_ready {
            self.send_ready(&sandbox, sender, model).await;
            self.is_ready = true;
        }
        Ok(sandbox)
    }

    /// Announces the session again, with another model, if it was announced.
    pub(crate) async fn announce_model(
        &mut self,
        sender: &EventSender,
        model: &ChosenModel,
    ) -> Result<(), AgentError> {
        if self.is_ready {
            let sandbox = self.wait_started().await?;
            self.send_ready(&sandbox, sender, model).await;
        }
        Ok(())
    }

    /// Sends what the session works with, before anything is recorded.
    async fn send_ready(&self, sandbox: &Sandbox, sender: &EventSender, model: &ChosenModel) {
        let ready = EventKind::Ready {
            model: model.model.name().to_owned(),
            window: model.window,
            sandbox: self.info(sandbox),
            workspace: self.spec.workspace.display().to_string(),
            asks: self.spec.network.asks(),
        };
        sender.send(ready).await;
    }

    /// Waits until the sandbox has started. Cancel safe.
    async fn wait_started(&mut self) -> Result<Arc<Sandbox>, AgentError> {
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
    fn take_unrecorded(&mut self) -> bool {
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
        let reason = match kills {
            0 => format!("the sandbox broke: {error}"),
            _ => format!(
                "the memory limit of {} was reached",
                limits::bytes(self.spec.limits.memory)
            ),
        };
        warn!(%reason, "sandbox replaced");
        self.replaces = Some(reason.clone());
        reason
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
    fn started_event(&self, sandbox: &Sandbox, replaces: Option<String>) -> EventKind {
        EventKind::SandboxStarted {
            sandbox: self.info(sandbox),
            replaces,
        }
    }

    /// What protects the sandbox, with the hosts that can be reached now.
    pub(crate) fn info(&self, sandbox: &Sandbox) -> SandboxInfo {
        SandboxInfo {
            network: self.spec.network.open(),
            ..sandbox.info().clone()
        }
    }

    /// Whether the session was announced.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready
    }

    pub(crate) fn spec(&self) -> &SandboxSpec {
        &self.spec
    }
}
