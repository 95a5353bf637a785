//! No walls: the guest as an ordinary process of the host. Must be requested explicitly.

use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::Duration;

use tokio::net::UnixStream;

use super::{ASKED_FOR, Description, Later, Raised, check_strict, child};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::enforce_without_walls;
use crate::spec::SandboxSpec;
use crate::starting;

/// How long the guest may take to end after its link is closed.
const TAKE_DOWN: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Standing {
    /// `None` after it was reaped.
    guest: Option<Child>,
}

pub(crate) fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let limits = enforce_without_walls(&spec.limits);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let workdir = spec
        .real_workspace()
        .map_err(|source| SandboxError::Workspace {
            path: spec.workspace.clone(),
            source,
        })?;
    let start = || {
        let (link, guests_link) = std::os::unix::net::UnixStream::pair()?;
        link.set_nonblocking(true)?;
        let guest = guest_program::command("serve")?
            .stdin(Stdio::from(OwnedFd::from(guests_link)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok((UnixStream::from_std(link)?, guest))
    };
    let (link, guest) = start().map_err(SandboxError::Launch)?;
    Ok(Raised {
        link,
        walls: Box::new(Standing { guest: Some(guest) }),
        description: Description {
            backend: "none",
            reason: ASKED_FOR.into(),
            walls: Vec::new(),
            limits,
        },
        workdir,
        // A command without walls belongs to the caller, so the spec defines its whole environment.
        env: Vec::new(),
    })
}

impl super::Standing for Standing {
    /// Waits for the guest, which ends when its link closes. Uses its own thread, because the task
    /// that closes the link must keep running meanwhile.
    fn take_down(&mut self) -> Later<'_, u64> {
        Box::pin(async {
            if let Some(mut guest) = self.guest.take() {
                child::aside(move || child::end_within(&mut guest, TAKE_DOWN)).await;
            }
            0
        })
    }

    fn memory_kills(&mut self) -> Later<'_, u64> {
        Box::pin(std::future::ready(0))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        if let Some(mut guest) = self.guest.take() {
            // The guest ends by itself now that its link is closed, but it must be reaped.
            starting::take_down_aside(move || {
                child::end_within(&mut guest, TAKE_DOWN);
            });
        }
    }
}
