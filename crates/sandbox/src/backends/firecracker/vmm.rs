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
use walls::machine::{Ending, Errand, Program};
use walls::plan;

use super::jail::Jail;
use super::room::Room;
use crate::backends::{Standing as _, child, native};
use crate::guest_program;
use crate::starting;

/// How long the warden may take to end after its link is closed.
const WARDEN_TIMEOUT: Duration = Duration::from_secs(30);

/// A Firecracker process. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Vmm {
    room: Room,
    /// Receives how the process ended. Closing it ends the process.
    link: Option<UnixStream>,
    holder: Holder,
}

#[derive(Debug)]
enum Holder {
    Jail {
        jail: Jail,
        warden: Option<Child>,
    },
    Walls {
        standing: native::Standing,
        folder: PathBuf,
    },
}

/// Firecracker ended by itself.
#[derive(Debug, thiserror::Error)]
pub(super) struct Ended(Option<Ending>);

impl fmt::Display for Ended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => write!(formatter, "Firecracker ended without a report"),
            Some(ending) if ending.said.is_empty() => {
                write!(formatter, "Firecracker ended ({})", ending.status)
            }
            Some(ending) => {
                let said: String = ending.said.chars().take(300).collect();
                write!(formatter, "Firecracker ended ({}): {said}", ending.status)
            }
        }
    }
}

impl Vmm {
    /// Starts Firecracker in a jail that has its files already. The warden puts it into its own pid
    /// and network namespaces, which the jailer does not do.
    pub(super) fn jailed(
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
            room: Room::open(room)?,
            link: None,
            holder: Holder::Jail {
                warden: Some(warden),
                jail,
            },
        };
        let Holder::Jail { jail, .. } = &vmm.holder else {
            unreachable!("made just above")
        };
        let errand = Errand {
            program: Some(Program {
                path: jailer.to_owned(),
                arguments: jail.arguments(api_socket),
            }),
            folder: None,
        };
        errand.send(&link, &[])?;
        vmm.link = Some(listen(link)?);
        Ok(vmm)
    }

    /// Starts Firecracker behind running native walls that are still empty.
    pub(super) fn walled(
        standing: native::Standing,
        link: UnixStream,
        program: Program,
        room: &Path,
    ) -> io::Result<Self> {
        let mut vmm = Self {
            room: Room::open(room)?,
            link: None,
            holder: Holder::Walls {
                standing,
                folder: room.to_owned(),
            },
        };
        let link = link.into_std()?;
        link.set_nonblocking(false)?;
        let errand = Errand {
            program: Some(program),
            folder: None,
        };
        errand.send(&link, &[])?;
        vmm.link = Some(listen(link)?);
        Ok(vmm)
    }

    /// The shared folder, and a watch for the end of the process.
    pub(super) fn parts(&mut self) -> (&Room, Watch<'_>) {
        (&self.room, Watch(self.link.as_mut()))
    }

    /// Ends it, and waits until all of its parts are gone.
    pub(super) async fn end(&mut self) {
        self.link = None;
        match &mut self.holder {
            Holder::Jail { jail, warden } => {
                if let Some(mut warden) = warden.take() {
                    child::aside(move || child::end_within(&mut warden, WARDEN_TIMEOUT)).await;
                }
                jail.remove();
            }
            Holder::Walls { standing, folder } => {
                standing.take_down().await;
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

/// Watches for Firecracker's end.
#[derive(Debug)]
pub(super) struct Watch<'a>(Option<&'a mut UnixStream>);

impl Watch<'_> {
    /// Waits until Firecracker ends by itself.
    pub(super) async fn ended(&mut self) -> Ended {
        match &mut self.0 {
            Some(link) => Ended(ending(link).await.ok()),
            None => Ended(None),
        }
    }
}

impl Drop for Vmm {
    fn drop(&mut self) {
        self.link = None;
        match &mut self.holder {
            Holder::Jail { warden, .. } => {
                // The warden ends by itself now, but it must be reaped. The jail is removed by a
                // later start.
                if let Some(mut warden) = warden.take() {
                    starting::take_down_aside(move || {
                        child::end_within(&mut warden, WARDEN_TIMEOUT);
                    });
                }
            }
            Holder::Walls { folder, .. } => {
                let _ = std::fs::remove_dir_all(folder);
            }
        }
    }
}

fn listen(link: StdUnixStream) -> io::Result<UnixStream> {
    link.set_nonblocking(true)?;
    UnixStream::from_std(link)
}

async fn ending(link: &mut UnixStream) -> io::Result<Ending> {
    /// The message is one line of text.
    const LONGEST: u32 = 64 * 1024;
    let length = link.read_u32_le().await?;
    if length > LONGEST {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut framed = length.to_le_bytes().to_vec();
    framed.resize(4 + length as usize, 0);
    link.read_exact(&mut framed[4..]).await?;
    plan::receive(&framed[..])
}
