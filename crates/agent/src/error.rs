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
    #[error("there is no undo to take back")]
    NothingToRedo,
    #[error("nothing was said yet")]
    NothingToCompact,
    #[error("cannot compact the conversation: {0}")]
    NotCompacted(String),
    #[error("cannot use the model `{name}`: {reason}")]
    NoModel { name: String, reason: String },
    #[error("the checkpoint of turn {turn} is gone: it was removed to make room")]
    CheckpointGone { turn: u32 },
    #[error("the first checkpoint is gone: it was removed to make room")]
    FirstCheckpointGone,
    #[error("the session has nothing left to do")]
    NothingToContinue,
    #[error("the prompt is empty")]
    NothingSaid,
    #[error("question {number} is not open")]
    NoQuestion { number: u32 },
    #[error(transparent)]
    Host(#[from] egress::RuleError),
    #[error("this sandbox has no proxy that could open a host")]
    NoProxy,
    #[error("cannot record an approval in the audit log")]
    Audit(#[from] audit::AuditError),
}

impl AgentError {
    /// Whether it only says no to a command, and the session goes on.
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
