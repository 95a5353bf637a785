//! Why a session cannot go on at all. What goes wrong in a turn is an [`protocol::Outcome`].

use sandbox::SandboxError;
use store::StoreError;
use thiserror::Error;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AgentError {
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the task that started the sandbox was lost")]
    Lost,
    #[error("there is no turn to take back")]
    NothingToUndo,
    #[error("the checkpoint of turn {turn} is gone: it was removed to make room")]
    CheckpointGone { turn: u32 },
    #[error("the session has nothing left to do")]
    NothingToContinue,
    #[error("the prompt is empty")]
    NothingSaid,
}

impl AgentError {
    /// Whether it only says no to a command, and the session goes on.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NothingToUndo
                | Self::CheckpointGone { .. }
                | Self::NothingToContinue
                | Self::NothingSaid
        )
    }
}
