//! Takes back the last turn: files and conversation together.

use protocol::EventKind;

use crate::checkpoint::{self, Restored};
use crate::error::AgentError;
use crate::session::Session;

impl Session {
    pub(crate) async fn undo(&mut self) -> Result<(), AgentError> {
        let Some(turn) = self.scribe.conversation.undoable() else {
            return Err(AgentError::NothingToUndo);
        };
        let before = self.scribe.conversation.checkpoint(turn).cloned();
        // Everything that can fail without a trace comes before the first change.
        let target = match &before {
            None => None,
            Some(before) => {
                let session = self.teller.session();
                let files = self.store.checkpoint(session, before.number).await?;
                Some(files.ok_or(AgentError::CheckpointGone { turn })?)
            }
        };
        let sandbox = self.sandbox(None).await?;
        let taken = checkpoint::take(&sandbox, &self.store, &self.known).await?;
        let number = self.scribe.conversation.last_checkpoint() + 1;
        let now = taken
            .save(&self.store, self.teller.session(), number)
            .await?;
        let restored = match (target, &before) {
            (Some(target), Some(before)) => {
                checkpoint::restore(&sandbox, &self.store, &target, &before.skipped).await?
            }
            _ => Restored::default(),
        };
        self.scribe
            .record(EventKind::Undone {
                turn,
                checkpoint: now,
                restored: restored.written,
                removed: restored.removed,
            })
            .await
    }
}
