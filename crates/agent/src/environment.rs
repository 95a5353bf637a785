//! The session's sandbox: announced when it has started, recorded when it is first used, and described
//! to the model.

use std::sync::Arc;

use protocol::EventKind;
use sandbox::Sandbox;

use crate::error::AgentError;
use crate::prompt;
use crate::session::Session;

impl Session {
    /// Waits for the sandbox, and sends `Ready` once. Cancel safe.
    pub(crate) async fn stand(&mut self) -> Result<(), AgentError> {
        let sandbox = self.cell.stand().await?;
        if !self.is_ready {
            self.send_ready(&sandbox).await;
            self.is_ready = true;
        }
        Ok(())
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
            workspace: self.cell.spec().workspace.display().to_string(),
            network: self.cell.network(),
            asks: self.cell.spec().network.asks(),
        };
        self.teller.tell(ready).await;
    }

    /// The started sandbox. Records a new one, and builds the system prompt if there is none yet.
    pub(crate) async fn sandbox(
        &mut self,
        replaces: Option<String>,
    ) -> Result<Arc<Sandbox>, AgentError> {
        self.stand().await?;
        let (sandbox, is_new) = self.cell.sandbox().await?;
        if is_new {
            let started = self.cell.started(&sandbox, replaces);
            self.scribe.record(started).await?;
        }
        if self.system.is_empty() {
            let network = self.cell.network();
            let advice = advice(&sandbox).await;
            let surroundings = prompt::PromptEnvironment {
                spec: self.cell.spec(),
                backend: sandbox.description().backend,
                root: sandbox.root(),
                network: &network,
            };
            self.system = prompt::system(&surroundings, &advice);
        }
        Ok(sandbox)
    }
}

/// The project's AGENTS.md, cut to the maximum length; empty if there is none.
async fn advice(sandbox: &Sandbox) -> String {
    let read = sandbox.read_file("AGENTS.md", 0, Some(prompt::MAX_INSTRUCTIONS_BYTES));
    match read.await {
        Ok((metadata, content)) => {
            let mut advice = String::from_utf8_lossy(&content).into_owned();
            if metadata.size > prompt::MAX_INSTRUCTIONS_BYTES {
                advice.push_str("\n[truncated: read the file for the rest]");
            }
            advice
        }
        Err(_) => String::new(),
    }
}
