//! Reverts an undo: its files become what they were before it, and the undone turns count again. Entry
//! type: [`TurnRedo`].

use protocol::EventKind;
use sandbox::Sandbox;
use store::FileRecord;

use crate::checkpoint::{self, RestoreResult, RestoreTarget, WorkspaceSnapshot};
use crate::conversation::{Conversation, UndoRecord};
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::session_checkpoints::{SessionCheckpoints, TurnFiles};

/// A redo, with everything loaded that it needs.
#[derive(Debug)]
pub(crate) struct TurnRedo {
    undone: UndoRecord,
    /// The files before the undo.
    wanted: Vec<FileRecord>,
    /// What the undo restored; `None` for a turn that changed nothing.
    files: Option<TurnFiles>,
}

impl TurnRedo {
    /// Loads the redo of the last undo. Changes nothing.
    pub(crate) async fn load(
        checkpoints: &SessionCheckpoints,
        conversation: &Conversation,
    ) -> Result<Self, AgentError> {
        let undone = conversation.redoable_undo().cloned();
        let undone = undone.ok_or(AgentError::NothingToRedo)?;
        let wanted = checkpoints.files(undone.turn, &undone.checkpoint).await?;
        let files = checkpoints.turn_files(undone.turn, conversation).await?;
        Ok(Self {
            undone,
            wanted,
            files,
        })
    }

    /// Reverts the undo. `snapshot` has the current files.
    pub(crate) async fn perform(
        self,
        checkpoints: &SessionCheckpoints,
        sandbox: &Sandbox,
        snapshot: &WorkspaceSnapshot,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        let Self {
            undone,
            wanted,
            files,
        } = self;
        let now = checkpoints.save(snapshot, &recorder.conversation).await?;
        let restored = match &files {
            Some(files) => {
                let skipped = &undone.checkpoint.skipped;
                // What differs from the state after the undo was changed by something else since.
                let left =
                    checkpoint::files_after_restore(files.target(None), &wanted, &undone.left);
                let target = RestoreTarget {
                    before: &wanted,
                    skipped,
                    after: Some((&left, skipped)),
                    now: Some(snapshot),
                };
                checkpoint::restore(sandbox, &checkpoints.store, target).await?
            }
            None => RestoreResult::default(),
        };
        recorder
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
