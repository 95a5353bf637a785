//! Reverts an undo: its files become what they were before it, and the undone turns count again.

use protocol::EventKind;

use crate::checkpoint::{self, RestoreResult, RestoreTarget};
use crate::error::AgentError;
use crate::session::Session;

impl Session {
    /// Reverts the last undo.
    pub(crate) async fn redo(&mut self) -> Result<(), AgentError> {
        let Some(undone) = self.recorder.conversation.redoable_undo().cloned() else {
            return Err(AgentError::NothingToRedo);
        };
        // Everything that can fail cleanly comes before the first change.
        let wanted = self
            .checkpoint_files(undone.turn, &undone.checkpoint)
            .await?;
        let record = self.turn_files(undone.turn).await?;
        let (sandbox, snapshot) = self.snapshot_now().await?;
        let number = self.recorder.conversation.last_checkpoint() + 1;
        let now = snapshot
            .save(&self.store, self.sender.session(), number)
            .await?;
        let restored = match &record {
            Some(record) => {
                let skipped = &undone.checkpoint.skipped;
                // What differs from the state after the undo was changed by something else since.
                let left =
                    checkpoint::files_after_restore(record.target(None), &wanted, &undone.left);
                let target = RestoreTarget {
                    before: &wanted,
                    skipped,
                    after: Some((&left, skipped)),
                    now: Some(&snapshot),
                };
                checkpoint::restore(&sandbox, &self.store, target).await?
            }
            None => RestoreResult::default(),
        };
        self.recorder
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
