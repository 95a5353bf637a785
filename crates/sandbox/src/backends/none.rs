//! No walls: the guest as an ordinary process of the host. Must be requested explicitly.

use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::Duration;

use protocol::{Backend, SandboxInfo};
use tokio::net::UnixStream;

use super::{BoxFuture, StartedBackend, check_strict, child};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::unwalled_enforcement;
use crate::spec::SandboxSpec;
use crate::start_progress;

/// How long the guest may take to end after its link is closed.
const TAKE_DOWN_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct UnwalledGuest {
    /// `None` after it was reaped.
    guest: Option<Child>,
}

pub(crate) fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let limits = unwalled_enforcement(&spec.limits);
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
    Ok(StartedBackend {
        link,
        walls: Box::new(UnwalledGuest { guest: Some(guest) }),
        info: SandboxInfo::requested(Backend::None, Vec::new()),
        limits,
        landlock: None,
        workdir,
        // A command without walls belongs to the caller, so the spec defines its whole environment.
        env: Vec::new(),
    })
}

impl super::RunningWalls for UnwalledGuest {
    /// Waits for the guest, which ends when its link closes. Uses its own thread, because the task
    /// that closes the link must keep running meanwhile.
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            if let Some(mut guest) = self.guest.take() {
                child::run_on_thread(move || child::wait_or_kill(&mut guest, TAKE_DOWN_TIMEOUT))
                    .await;
            }
            0
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(std::future::ready(0))
    }
}

impl Drop for UnwalledGuest {
    fn drop(&mut self) {
        if let Some(mut guest) = self.guest.take() {
            // The guest ends by itself now that its link is closed, but it must be reaped.
            start_progress::take_down_on_thread(move || {
                child::wait_or_kill(&mut guest, TAKE_DOWN_TIMEOUT);
            });
        }
    }
}
