//! Changes the model that a session asks. Never in the middle of a turn.

use protocol::EventKind;

use crate::error::AgentError;
use crate::session::Session;

impl Session {
    /// From the next request on, another model. Before the first turn there is nothing to put it
    /// on record with: the session then begins with it, and what there is is told anew.
    pub(crate) async fn use_model(&mut self, name: &str) -> Result<(), AgentError> {
        let refuse = |reason: String| AgentError::NoModel {
            name: name.to_owned(),
            reason,
        };
        let chosen = self.models.choose(name, 0).map_err(refuse)?;
        if self.ledger.has_cost_ceiling() && !chosen.price.is_known() {
            let reason = "its price is unknown, so the ceiling in money cannot hold";
            return Err(refuse(reason.to_owned()));
        }
        let own_name = chosen.model.name().to_owned();
        self.model = chosen;
        if let Some(EventKind::SessionStarted { model, .. }) = self.scribe.opening() {
            *model = own_name;
            if self.is_ready {
                let sandbox = self.cell.stand().await?;
                self.greet(&sandbox).await;
            }
            return Ok(());
        }
        let changed = EventKind::ModelChanged {
            model: own_name,
            window: self.model.window,
        };
        self.scribe.record(changed).await
    }
}
