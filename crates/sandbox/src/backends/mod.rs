//! The backends: each puts up its walls, starts the guest behind them, and hands back the link.

pub(crate) mod native;
pub(crate) mod none;

use std::path::PathBuf;

use serde::Serialize;
use tokio::net::UnixStream;

use crate::error::SandboxError;
use crate::limits::Enforcement;
use crate::spec::{Backend, SandboxSpec};

/// What a backend hands back.
#[derive(Debug)]
pub(crate) struct Raised {
    pub(crate) link: UnixStream,
    pub(crate) walls: Standing,
    pub(crate) description: Description,
    /// Where commands find the workspace.
    pub(crate) workdir: PathBuf,
    /// The usual variables of commands.
    pub(crate) env: Vec<(String, String)>,
}

/// Walls that stand, and how to take them down.
#[derive(Debug)]
pub(crate) enum Standing {
    Native(native::Standing),
    None(none::Standing),
}

impl Standing {
    /// Takes everything down and waits until it is gone. Says how many processes the kernel
    /// killed for want of memory, if anybody counted.
    pub(crate) async fn take_down(&mut self) -> u64 {
        match self {
            Self::Native(standing) => standing.take_down().await,
            Self::None(standing) => {
                standing.take_down().await;
                0
            }
        }
    }

    /// The count of such kills so far.
    pub(crate) fn memory_kills(&self) -> u64 {
        match self {
            Self::Native(standing) => standing.memory_kills(),
            Self::None(_) => 0,
        }
    }
}

/// What protects a sandbox, for people and for the record.
#[derive(Debug, Clone, Serialize)]
pub struct Description {
    pub backend: &'static str,
    /// The walls, each in a few words.
    pub walls: Vec<String>,
    pub limits: Vec<Enforcement>,
}

/// Puts up the walls that the spec asks for.
pub(crate) async fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let raised = match spec.backend {
        Backend::Auto | Backend::Native => native::raise(spec).await?,
        Backend::None => none::raise(spec)?,
    };
    Ok(raised)
}

/// Fails for the first limit that is not enforced in full, before anything is started.
pub(crate) fn check_strict(limits: &[Enforcement]) -> Result<(), SandboxError> {
    match limits.iter().find(|enforcement| !enforcement.is_full()) {
        None => Ok(()),
        Some(weak) => Err(SandboxError::Unenforced {
            limit: weak.limit,
            reason: weak
                .caveat
                .clone()
                .unwrap_or_else(|| "there is no mechanism".into()),
        }),
    }
}
