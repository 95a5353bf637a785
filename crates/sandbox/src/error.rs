//! Errors of sandbox operations, with a hint where one is known.

use std::io;
use std::path::PathBuf;

use link::request::Refusal;
use protocol::{Backend, Strength};
use thiserror::Error;

use crate::limits::LimitKind;

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("cannot use workspace `{path}`")]
    Workspace { path: PathBuf, source: io::Error },
    #[error("cannot use root file system `{path}`")]
    Image { path: PathBuf, source: io::Error },
    #[error("cannot start the guest program")]
    Launch(#[source] io::Error),
    /// A wall could not be set up, so nothing was started.
    #[error("cannot put up the native walls")]
    Walls {
        source: walls::plan::SetupFailure,
        advice: Option<String>,
    },
    /// A program, socket or device that the backend needs is missing or does not work here.
    #[error("cannot use the `{backend}` backend: {reason}")]
    Unavailable {
        backend: Backend,
        reason: String,
        advice: Option<String>,
    },
    /// A step of a backend failed.
    #[error("cannot {doing} for the `{backend}` backend")]
    Backend {
        backend: Backend,
        /// The end of "cannot …".
        doing: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No backend here is as strong as the policy requires.
    #[error("nothing here is as strong as `{}`, which is required: {reason}", .required.name())]
    TooWeak {
        required: Strength,
        reason: String,
        advice: Option<String>,
    },
    #[error("nothing on this machine enforces the limit on {} in full: {reason}", .limit.name())]
    Unenforced { limit: LimitKind, reason: String },
    /// The start took longer than the time limit of the sandbox, or than the limit of any start.
    #[error("cannot start the sandbox within {limit:?}: timed out before it could {step}")]
    StartTimedOut {
        /// The step it was waiting for, as the end of "cannot …".
        step: &'static str,
        limit: std::time::Duration,
    },
    #[error("cannot complete the handshake with the guest")]
    Greeting(#[source] link::ConnectError),
    #[error("cannot record in the audit log")]
    Audit(#[from] audit::AuditError),
    #[error("the sandbox has ended")]
    Ended,
    #[error("cannot talk to the sandbox")]
    Stream(#[from] link::StreamError),
    /// The guest refused the request.
    #[error(transparent)]
    Refused(Refusal),
}

/// Length to which a refusal is cut. The guest is not trusted.
const MAX_REFUSAL_CHARS: usize = 4096;

impl From<Refusal> for SandboxError {
    fn from(mut refusal: Refusal) -> Self {
        if let Some((end, _)) = refusal.message.char_indices().nth(MAX_REFUSAL_CHARS) {
            refusal.message.truncate(end);
            refusal.message.shrink_to_fit();
        }
        Self::Refused(refusal)
    }
}

impl SandboxError {
    /// Whether the sandbox can no longer be used.
    pub fn is_final(&self) -> bool {
        use link::StreamError::{Encode, TooLong};
        // Errors before anything was sent leave the link intact.
        !matches!(
            self,
            Self::Refused(_) | Self::Stream(Encode(_) | TooLong(_))
        )
    }

    /// How to fix it, if known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Walls { advice, .. }
            | Self::Unavailable { advice, .. }
            | Self::TooWeak { advice, .. } => advice.clone(),
            Self::Unenforced { .. } => {
                Some("drop `--strict-limits`, or run where a cgroup is delegated to you".into())
            }
            Self::Workspace { .. } => Some("name an existing folder with `--workspace`".into()),
            Self::Image { .. } => {
                Some("name a folder that holds a root file system with `--rootfs`".into())
            }
            _ => None,
        }
    }
}
