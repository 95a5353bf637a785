//! The session's sandbox: announced when it has started, recorded when it is first used, and described
//! to the model.

use std::sync::Arc;

use protocol::EventKind;
use sandbox::Sandbox;

use crate::error::AgentError;
use crate::prompt;
use crate::session::Session;

impl Session {
    /// Waits until the sandbox has started, and sends `Ready` once. Cancel safe.
    pub(crate) async fn wait_ready(&mut self) -> Result<Arc<Sandbox>, AgentError> {
        let sandbox = self.sandbox.wait_started().await?;
        if !self.is_ready {
            self.send_ready(&sandbox).await;
            self.is_ready = true;
        }
        Ok(sandbox)
    }

    /// Sends what the session works with, before anything is recorded.
    pub(crate) async fn send_ready(&self, sandbox: &Sandbox) {
        let description = sandbox.description();
        let ready = EventKind::Ready {
            model: self.model.model.name().to_owned(),
            window: self.model.window,
            backend: description.backend.to_owned(),
            strength: description.strength().name().to_owned(),
            reason: description.reason.clone(),
            walls: description.walls.clone(),
            workspace: self.sandbox.spec().workspace.display().to_string(),
            network: self.sandbox.network(),
            asks: self.sandbox.spec().network.asks(),
        };
        self.sender.send(ready).await;
    }

    /// The started sandbox. Records a new one, and builds the system prompt if there is none yet.
    pub(crate) async fn ensure_sandbox(
        &mut self,
        replaces: Option<String>,
    ) -> Result<Arc<Sandbox>, AgentError> {
        let sandbox = self.wait_ready().await?;
        if self.sandbox.take_unrecorded() {
            let started = self.sandbox.started_event(&sandbox, replaces);
            self.recorder.record(started).await?;
        }
        if self.system.is_empty() {
            let network = self.sandbox.network();
            let instructions = read_instructions(&sandbox).await;
            let environment = prompt::PromptEnvironment {
                spec: self.sandbox.spec(),
                backend: sandbox.description().backend,
                root: sandbox.root(),
                network: &network,
            };
            self.system = prompt::system(&environment, &instructions);
        }
        Ok(sandbox)
    }
}

/// The project's AGENTS.md, cut to the maximum length; empty if there is none.
async fn read_instructions(sandbox: &Sandbox) -> String {
    let read = sandbox.read_file("AGENTS.md", 0, Some(prompt::MAX_INSTRUCTIONS_BYTES));
    match read.await {
        Ok((metadata, content)) => {
            let mut instructions = String::from_utf8_lossy(&content).into_owned();
            if metadata.size > prompt::MAX_INSTRUCTIONS_BYTES {
                instructions.push_str("\n[truncated: read the file for the rest]");
            }
            instructions
        }
        Err(_) => String::new(),
    }
}
