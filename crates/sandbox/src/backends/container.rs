//! Shared by Podman and Docker: how a container connects to its host, and how its limits are
//! enforced.
//!
//! The guest connects to a socket that is mounted into the container ([`link_socket`]) instead of using
//! attached standard input and output: no process of the engine copies the bytes, no header of the
//! engine can get between them, and a restart of the daemon does not cut the link. The limits that
//! the engine was given are read back from the kernel ([`cgroup_limits`]); the guest enforces the ones that
//! the kernel does not. Each sandbox has a folder that carries its owner's name ([`folder`]), so
//! that the next start can remove what a crash left behind. Starts no engine.

pub(crate) mod cgroup_limits;
pub(crate) mod folder;
pub(crate) mod link_socket;
pub(crate) mod profile;

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};

use protocol::Backend;
use walls::plan::sandbox_user;

use crate::backends::root_entries::overlay_folders;
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::{LimitEnforcement, LimitKind};
use crate::spec::{RootSpec, SandboxSpec};

/// Path of the link socket inside.
pub(crate) const LINK_PATH: &str = "/.hotcell/link";

/// First host user id for the root user of containers. Only the engine's own steps before the guest
/// run as it.
const FIRST_ROOT_UID: u32 = 0x7100_0000;

/// A number that is unique among the sandboxes of this process.
pub(crate) fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// Host user ids that belong to one sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SandboxUids {
    pub(crate) user: u32,
    pub(crate) root: u32,
}

impl SandboxUids {
    /// Includes the process id, so that sandboxes of several host processes differ too.
    pub(crate) fn of(number: u32) -> Self {
        let number = (std::process::id() << 10).wrapping_add(number) & 0x00ff_ffff;
        Self {
            user: sandbox_user(number),
            root: FIRST_ROOT_UID + number,
        }
    }
}

/// The owners of the mounted folders, once these are known to exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MountOwners {
    pub(crate) workspace: (u32, u32),
    pub(crate) image: Option<(u32, u32)>,
}

impl MountOwners {
    pub(crate) fn look(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let workspace =
            folder_owner(&spec.workspace).map_err(|source| SandboxError::Workspace {
                path: spec.workspace.clone(),
                source,
            })?;
        let image = match &spec.root {
            RootSpec::Host => None,
            RootSpec::Image(image) => {
                Some(folder_owner(image).map_err(|source| SandboxError::Image {
                    path: image.clone(),
                    source,
                })?)
            }
        };
        Ok(Self { workspace, image })
    }
}

fn folder_owner(folder: &Path) -> io::Result<(u32, u32)> {
    let metadata = fs::metadata(folder)?;
    if metadata.is_dir() {
        Ok((metadata.uid(), metadata.gid()))
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Bounds resources that all sandboxes share, as far as this user may: terminals, watches, the
/// host's programs. Only a second wall: without it, a sandbox can use up what others need and see
/// which programs they run.
pub(crate) async fn fence(pid: Option<i32>, root: &RootSpec) {
    let Some(pid) = pid else {
        return;
    };
    let folders = match root {
        RootSpec::Host => overlay_folders(),
        RootSpec::Image(_) => Vec::new(),
    };
    let outcome = tokio::task::spawn_blocking(move || {
        guest_program::command("fence")?
            .arg(pid.to_string())
            .args(folders)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
    })
    .await;
    match outcome {
        Ok(Ok(output)) if output.status.success() => {}
        Ok(Ok(output)) => {
            let said = String::from_utf8_lossy(&output.stderr);
            tracing::debug!(said = said.trim(), "container is not fenced");
        }
        outcome => tracing::debug!(?outcome, "container is not fenced"),
    }
}

/// The limits of a sandbox whose root changes are in a layer of the engine, on a disk that has no
/// limit per container.
pub(crate) fn with_engine_disk_caveat(limits: Vec<LimitEnforcement>) -> Vec<LimitEnforcement> {
    let bounded = |one: LimitEnforcement| match one.limit {
        LimitKind::Disk => {
            one.but("outside the workspace only where the engine's data is on the same disk")
        }
        _ => one,
    };
    limits.into_iter().map(bounded).collect()
}

/// The error message of an engine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct EngineError(pub(crate) String);

impl EngineError {
    /// Extracts the most specific line from the output of an engine.
    pub(crate) fn new(printed: &str) -> Self {
        const MAX_MESSAGE_CHARS: usize = 400;
        let lines = || {
            printed
                .lines()
                .map(str::trim)
                .filter(|line| !line.is_empty())
        };
        let error = lines().find_map(|line| line.strip_prefix("Error: "));
        let line = error
            .or_else(|| lines().next_back())
            .unwrap_or("it says nothing");
        Self(line.chars().take(MAX_MESSAGE_CHARS).collect())
    }
}

pub(crate) fn failed(
    backend: Backend,
    doing: &str,
    source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SandboxError {
    SandboxError::Backend {
        backend,
        doing: doing.into(),
        source: source.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engines_words_are_one_line() {
        let check = |printed: &str, expect: &str| assert_eq!(EngineError::new(printed).0, expect);
        check("Error: no space\n", "no space");
        check(
            "time=\"…\" level=warning msg=\"\\\"/\\\" is not a shared mount\"\nError: runc: denied\n",
            "runc: denied",
        );
        check("first\nlast\n\n", "last");
        check("", "it says nothing");
        check(&format!("Error: {}", "x".repeat(9000)), &"x".repeat(400));
    }
}
