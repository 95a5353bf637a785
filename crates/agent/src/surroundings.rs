//! The sandbox as a session has it: told of when it stands, put on record when it is first used,
//! and described to the model.

use std::sync::Arc;

use protocol::EventKind;
use sandbox::Sandbox;

use crate::error::AgentError;
use crate::prompt;
use crate::session::Session;

impl Session {
    /// Waits for the sandbox, and tells that commands are listened to, once. May be left and
    /// called again.
    pub(crate) async fn stand(&mut self) -> Result<(), AgentError> {
        let sandbox = self.cell.stand().await?;
        if !self.is_ready {
            self.greet(&sandbox).await;
            self.is_ready = true;
        }
        Ok(())
    }

    /// Tells what there is to work with, before anything of the session is on record.
    pub(crate) async fn greet(&self, sandbox: &Sandbox) {
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

    /// The sandbox, standing. Puts it on record when it is new, and tells the model of it too.
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
            let surroundings = prompt::Surroundings {
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
