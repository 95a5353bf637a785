//! Undoes a turn: its files and its part of the conversation. Entry type: [`TurnUndo`].

use protocol::EventKind;
use sandbox::Sandbox;

use crate::checkpoint::{self, RestoreResult, WorkspaceSnapshot};
use crate::conversation::Conversation;
use crate::error::AgentError;
use crate::event_log::EventRecorder;
use crate::session_checkpoints::{SessionCheckpoints, TurnFiles};

/// An undo, with everything loaded that it needs.
#[derive(Debug)]
pub(crate) struct TurnUndo {
    turn: u32,
    /// `None` for a turn that changed nothing.
    files: Option<TurnFiles>,
}

impl TurnUndo {
    /// Loads the undo of the last turn. Changes nothing.
    pub(crate) async fn load(
        checkpoints: &SessionCheckpoints,
        conversation: &Conversation,
    ) -> Result<Self, AgentError> {
        let turn = conversation.undoable().ok_or(AgentError::NothingToUndo)?;
        let files = checkpoints.turn_files(turn, conversation).await?;
        Ok(Self { turn, files })
    }

    /// Undoes the turn. `snapshot` has the current files, for a redo.
    pub(crate) async fn perform(
        self,
        checkpoints: &SessionCheckpoints,
        sandbox: &Sandbox,
        snapshot: &WorkspaceSnapshot,
        recorder: &mut EventRecorder,
    ) -> Result<(), AgentError> {
        let now = checkpoints.save(snapshot, &recorder.conversation).await?;
        let restored = match &self.files {
            Some(files) => {
                let target = files.target(Some(snapshot));
                checkpoint::restore(sandbox, &checkpoints.store, target).await?
            }
            None => RestoreResult::default(),
        };
        recorder
            .record(EventKind::Undone {
                turn: self.turn,
                checkpoint: now,
                restored: restored.written,
                removed: restored.removed,
                left: restored.left,
            })
            .await
    }
}
