//! The Firecracker process and what confines it: the jailer for the host's root, native walls for
//! other users. In both cases it ends with this process, even after a crash. Entry type: [`Vmm`].

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use walls::machine::{HelperTask, ProgramExit, VmmProgram};
use walls::plan;

use super::jail::Jail;
use super::shared_dir::SharedDir;
use crate::backends::{RunningWalls as _, child, native};
use crate::guest_program;
use crate::start_progress;

/// How long the warden may take to end after its link is closed.
const WARDEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A Firecracker process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Vmm {
    room: SharedDir,
    /// Receives how the process ended. Closing it ends the process.
    link: Option<UnixStream>,
    holder: VmmConfinement,
}

#[derive(Debug)]
enum VmmConfinement {
    Jail {
        jail: Jail,
        warden: Option<Child>,
    },
    Walls {
        standing: native::NativeWalls,
        folder: PathBuf,
    },
}

/// Firecracker ended by itself.
#[derive(Debug, thiserror::Error)]
pub(super) struct Ended(Option<ProgramExit>);

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => write!(formatter, "Firecracker ended without a report"),
            Some(exit) if exit.last_stderr_line.is_empty() => {
                write!(formatter, "Firecracker ended ({})", exit.status)
            }
            Some(exit) => {
                let said: String = exit.last_stderr_line.chars().take(300).collect();
                write!(formatter, "Firecracker ended ({}): {said}", exit.status)
            }
        }
    }
}

impl Vmm {
    /// Starts Firecracker in a jail that has its files already. The warden puts it into its own pid
    /// and network namespaces, which the jailer does not do.
    pub(super) fn start_jailed(
        jail: Jail,
        jailer: &Path,
        api_socket: &str,
        room: &Path,
        deadline: Option<Duration>,
    ) -> io::Result<Self> {
        let (link, far) = StdUnixStream::pair()?;
        let seconds = deadline.map_or(0, |deadline| deadline.as_secs() + 1);
        let warden = guest_program::command("warden")?
            .arg(seconds.to_string())
            .stdin(Stdio::from(OwnedFd::from(far)))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut vmm = Self {
            room: SharedDir::open(room)?,
            link: None,
            holder: VmmConfinement::Jail {
                warden: Some(warden),
                jail,
            },
        };
        let VmmConfinement::Jail { jail, .. } = &vmm.holder else {
            unreachable!("made just above")
        };
        let errand = HelperTask {
            program: Some(VmmProgram {
                path: jailer.to_owned(),
                arguments: jail.arguments(api_socket),
            }),
            folder: None,
        };
        errand.send(&link, &[])?;
        vmm.link = Some(into_async(link)?);
        Ok(vmm)
    }

    /// Starts Firecracker behind running native walls that are still empty.
    pub(super) fn start_walled(
        standing: native::NativeWalls,
        link: UnixStream,
        program: VmmProgram,
        room: &Path,
    ) -> io::Result<Self> {
        let mut vmm = Self {
            room: SharedDir::open(room)?,
            link: None,
            holder: VmmConfinement::Walls {
                standing,
                folder: room.to_owned(),
            },
        };
        let link = link.into_std()?;
        link.set_nonblocking(false)?;
        let errand = HelperTask {
            program: Some(program),
            folder: None,
        };
        errand.send(&link, &[])?;
        vmm.link = Some(into_async(link)?);
        Ok(vmm)
    }

    /// The shared folder, and a watch for the end of the process.
    pub(super) fn parts(&mut self) -> (&SharedDir, VmmWatch<'_>) {
        (&self.room, VmmWatch(self.link.as_mut()))
    }

    /// Ends it, and waits until all of its parts are gone.
    pub(super) async fn end(&mut self) {
        self.link = None;
        match &mut self.holder {
            VmmConfinement::Jail { jail, warden } => {
                if let Some(mut warden) = warden.take() {
                    child::run_on_thread(move || child::wait_or_kill(&mut warden, WARDEN_TIMEOUT))
                        .await;
                }
                jail.remove();
            }
            VmmConfinement::Walls { standing, folder } => {
                standing.take_down().await;
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

/// Watches for Firecracker's end.
#[derive(Debug)]
pub(super) struct VmmWatch<'a>(Option<&'a mut UnixStream>);

impl VmmWatch<'_> {
    /// Waits until Firecracker ends by itself.
    pub(super) async fn ended(&mut self) -> Ended {
        match &mut self.0 {
            Some(link) => Ended(receive_exit(link).await.ok()),
            None => Ended(None),
        }
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        self.link = None;
        match &mut self.holder {
            VmmConfinement::Jail { warden, .. } => {
                // The warden ends by itself now, but it must be reaped. The jail is removed by a
                // later start.
                if let Some(mut warden) = warden.take() {
                    start_progress::take_down_on_thread(move || {
                        child::wait_or_kill(&mut warden, WARDEN_TIMEOUT);
                    });
                }
            }
            VmmConfinement::Walls { folder, .. } => {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

fn into_async(link: StdUnixStream) -> io::Result<UnixStream> {
    link.set_nonblocking(true)?;
    UnixStream::from_std(link)
}

async fn receive_exit(link: &mut UnixStream) -> io::Result<ProgramExit> {
    /// The message is one line of text.
    const MAX_EXIT_BYTES: u32 = 64 * 1024;
    let length = link.read_u32_le().await?;
    if length > MAX_EXIT_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut framed = length.to_le_bytes().to_vec();
    framed.resize(4 + length as usize, 0);
    link.read_exact(&mut framed[4..]).await?;
    plan::receive(&framed[..])
}
