//! Changes the model of a session. Never in the middle of a turn.

use protocol::EventKind;

use crate::error::AgentError;
use crate::session::Session;

impl Session {
    /// Uses another model from the next request on. Before the first turn, nothing is recorded yet: the
    /// session then starts with that model, and `Ready` is sent again.
    pub(crate) async fn use_model(&mut self, name: &str) -> Result<(), AgentError> {
        let refuse = |reason: String| AgentError::NoModel {
            name: name.to_owned(),
            reason,
        };
        let chosen = self.models.choose(name, 0).map_err(refuse)?;
        if self.ledger.has_cost_limit() && !chosen.price.is_known() {
            let reason = "its price is unknown, so the cost limit cannot be enforced";
            return Err(refuse(reason.to_owned()));
        }
        let own_name = chosen.model.name().to_owned();
        self.model = chosen;
        if let Some(EventKind::SessionStarted { model, .. }) = self.recorder.opening() {
            *model = own_name;
            if self.is_ready {
                let sandbox = self.sandbox.wait_started().await?;
                self.send_ready(&sandbox).await;
            }
            return Ok(());
        }
        let changed = EventKind::ModelChanged {
            model: own_name,
            window: self.model.window,
        };
        self.recorder.record(changed).await
    }
}
