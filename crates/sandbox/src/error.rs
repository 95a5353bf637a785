//! Why a sandbox did not do as asked, with advice where there is any.

use std::io;
use std::path::PathBuf;

use link::request::Refusal;
use thiserror::Error;

use crate::limits::LimitKind;
use crate::spec::{Backend, Strength};

#[derive(Debug, Error)]
#[non_exhaustive]
pub enum SandboxError {
    #[error("cannot use workspace `{path}`")]
    Workspace { path: PathBuf, source: io::Error },
    #[error("cannot use root file system `{path}`")]
    Image { path: PathBuf, source: io::Error },
    #[error("cannot start the guest program")]
    Launch(#[source] io::Error),
    /// A wall could not be put up, so nothing was started.
    #[error("cannot put up the native walls")]
    Walls {
        source: walls::plan::Failure,
        advice: Option<String>,
    },
    /// What a backend is made of is not here, or does not work here.
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
        /// As the end of "cannot …".
        doing: String,
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The policy demands more than there is.
    #[error("nothing here is as strong as `{}`, which is required: {reason}", .required.name())]
    TooWeak {
        required: Strength,
        reason: String,
        advice: Option<String>,
    },
    #[error("nothing on this machine enforces the limit on {} in full: {reason}", .limit.name())]
    Unenforced { limit: LimitKind, reason: String },
    /// It took longer than the time limit of the sandbox, or than any start should.
    #[error("cannot start the sandbox within {limit:?}: the time was over before it could {step}")]
    StartTimedOut {
        /// What it was waiting for, as the end of "cannot …".
        step: &'static str,
        limit: std::time::Duration,
    },
    #[error("cannot greet the guest")]
    Greeting(#[source] link::ConnectError),
    #[error("cannot record in the audit log")]
    Audit(#[from] audit::AuditError),
    #[error("the sandbox has ended")]
    Ended,
    #[error("cannot talk to the sandbox")]
    Stream(#[from] link::StreamError),
    /// The guest said no.
    #[error(transparent)]
    Refused(Refusal),
}

/// Characters of a refusal that are kept. A guest can say anything.
const LONGEST_REFUSAL: usize = 4096;

impl From<Refusal> for SandboxError {
    fn from(mut refusal: Refusal) -> Self {
        if let Some((end, _)) = refusal.message.char_indices().nth(LONGEST_REFUSAL) {
            refusal.message.truncate(end);
            refusal.message.shrink_to_fit();
        }
        Self::Refused(refusal)
    }
}

impl SandboxError {
    /// Whether nothing more can be asked of the sandbox.
    pub fn is_final(&self) -> bool {
        use link::StreamError::{Encode, TooLong};
        // What was not even sent broke nothing.
        !matches!(
            self,
            Self::Refused(_) | Self::Stream(Encode(_) | TooLong(_))
        )
    }

    /// How to fix it, if that is known.
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
