//! Reverts an undo: its files become what they were before it, and the undone turns count again.

use protocol::EventKind;

use crate::checkpoint::{self, Restored, Target};
use crate::error::AgentError;
use crate::session::Session;

impl Session {
    /// Reverts the last undo.
    pub(crate) async fn redo(&mut self) -> Result<(), AgentError> {
        let Some(undone) = self.scribe.conversation.redoable().cloned() else {
            return Err(AgentError::NothingToRedo);
        };
        // Everything that can fail cleanly comes before the first change.
        let wanted = self.files_at(undone.turn, &undone.checkpoint).await?;
        let record = self.record_of(undone.turn).await?;
        let (sandbox, taken) = self.take_now().await?;
        let number = self.scribe.conversation.last_checkpoint() + 1;
        let now = taken
            .save(&self.store, self.teller.session(), number)
            .await?;
        let restored = match &record {
            Some(record) => {
                let skipped = &undone.checkpoint.skipped;
                // What differs from the state after the undo was changed by something else since.
                let left = checkpoint::left_by(record.target(None), &wanted, &undone.left);
                let target = Target {
                    before: &wanted,
                    skipped,
                    after: Some((&left, skipped)),
                    now: Some(&taken),
                };
                checkpoint::restore(&sandbox, &self.store, target).await?
            }
            None => Restored::default(),
        };
        self.scribe
            .record(EventKind::Redone {
                turn: undone.turn,
                checkpoint: now,
                restored: restored.written,
                removed: restored.removed,
                left: restored.left,
            })
            .await
    }
}
