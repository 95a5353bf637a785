//! Errors that end a session or refuse a command. A failure inside a turn is a [`protocol::Outcome`].

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
    #[error("a task of the session ended unexpectedly")]
    Lost,
    #[error("there is no turn to undo")]
    NothingToUndo,
    #[error("there is nothing to redo")]
    NothingToRedo,
    #[error("the conversation is empty")]
    NothingToCompact,
    #[error("cannot compact the conversation: {0}")]
    NotCompacted(String),
    #[error("cannot use the model `{name}`: {reason}")]
    NoModel { name: String, reason: String },
    #[error("the checkpoint of turn {turn} is gone: it was removed to free space")]
    CheckpointGone { turn: u32 },
    #[error("the first checkpoint is gone: it was removed to free space")]
    FirstCheckpointGone,
    #[error("there is no unfinished turn to continue")]
    NothingToContinue,
    #[error("the prompt is empty")]
    NothingSaid,
    #[error("question {number} is not open")]
    NoQuestion { number: u32 },
    #[error(transparent)]
    Host(#[from] egress::RuleError),
    #[error("cannot allow a host: this sandbox has no proxy")]
    NoProxy,
    #[error("cannot record an approval in the audit log")]
    Audit(#[from] audit::AuditError),
}

impl AgentError {
    /// Whether the error only refuses a command, so that the session goes on.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::NothingToUndo
                | Self::NothingToRedo
                | Self::NothingToCompact
                | Self::NotCompacted(_)
                | Self::NoModel { .. }
                | Self::CheckpointGone { .. }
                | Self::NothingToContinue
                | Self::NothingSaid
                | Self::NoQuestion { .. }
                | Self::Host(_)
                | Self::NoProxy
                | Self::Audit(_)
        )
    }
}
