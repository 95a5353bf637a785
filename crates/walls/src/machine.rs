//! Messages between the host, the first process of a virtual machine (init), and the helper process that
//! starts the VMM. Plain data and its framing; starts nothing.
//!
//! ```text
//! host ──`HelperTask` + descriptors──▶ helper, behind walls, starts QEMU ──`ProgramExit`──▶ host
//! host ──`WallsPlan`──▶ init, inside the machine, which sets up these walls there
//! host ◀──`MachineReady`── init                   (then it waits: a snapshot is taken here)
//! host ──`MachineActivation`──▶ init, which adapts these walls to one sandbox, or sets up others
//! ```

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};
use serde::{Deserialize, Serialize};

use crate::plan::{SetupFailure, WallsPlan, receive, send};

/// The first message of a machine's init: ready, or why not.
pub type MachineReady = Result<(), SetupFailure>;

/// Turns a waiting machine into one sandbox. A restored machine has the wrong time and the same random
/// state as every other machine from the snapshot, so it gets both here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineActivation {
    /// Time since 1970.
    pub clock: Duration,
    /// Seed for the kernel's random number generator. Without it, two machines from one snapshot would
    /// draw the same numbers.
    pub seed: [u8; 32],
    pub plan: WallsPlan,
}

/// What the helper process starts and serves behind the walls.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HelperTask {
    /// The VMM. `None`: only the files are served.
    pub program: Option<VmmProgram>,
    /// A folder to serve on the first descriptor of the message.
    pub folder: Option<PathBuf>,
}

/// A program to start. It inherits the descriptors of the message, except that of the folder, with numbers
/// from [`FIRST_DESCRIPTOR`] on.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct VmmProgram {
    pub path: PathBuf,
    pub arguments: Vec<String>,
}

/// The number of the first descriptor that a program inherits besides 0, 1 and 2.
pub const FIRST_DESCRIPTOR: RawFd = 10;

/// How the program ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExit {
    /// As formatted by the standard library, such as `exit status: 1`.
    pub status: String,
    /// The last line of its standard error, if any.
    pub last_stderr_line: String,
}

pub mod vsock {
    //! Port numbers for machines that have a vsock device.

    /// On the host. A machine connects to it once, to report that it is ready.
    pub const READY_PORT: u32 = 7000;
    /// This port and the next two are on the machine.
    pub const LINK_PORT: u32 = 7001;
    pub const CONTROL_PORT: u32 = 7002;
    pub const FILES_PORT: u32 = 7003;
}

/// An upper bound on the descriptors of one message; none needs as many.
const MAX_DESCRIPTORS: usize = 16;

impl HelperTask {
    pub fn send(&self, to: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        send_with_descriptors(to.as_fd(), &[1], descriptors)?;
        send(to, self)
    }

    pub fn receive(from: &UnixStream) -> io::Result<(Self, Vec<OwnedFd>)> {
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(from.as_raw_fd(), &mut slices, Some(&mut space), flags)?;
        let mut descriptors = Vec::new();
        for control in message.cmsgs()? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                // SAFETY: the kernel just made these descriptors for this process alone.
                descriptors.extend(
                    numbers
                        .into_iter()
                        .map(|number| unsafe { OwnedFd::from_raw_fd(number) }),
                );
            }
        }
        if message.bytes == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok((receive(from)?, descriptors))
    }
}

/// Sends bytes together with descriptors. Fails if not all bytes were sent.
pub fn send_with_descriptors(
    to: BorrowedFd<'_>,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let numbers: Vec<RawFd> = descriptors.iter().map(AsRawFd::as_raw_fd).collect();
    let rights = [ControlMessage::ScmRights(&numbers)];
    let control: &[ControlMessage<'_>] = if numbers.is_empty() { &[] } else { &rights };
    let slices = [IoSlice::new(bytes)];
    let sent = sendmsg::<UnixAddr>(to.as_raw_fd(), &slices, control, MsgFlags::empty(), None)?;
    if sent == bytes.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::WriteZero.into())
    }
}

/// Gives the descriptors consecutive numbers from [`FIRST_DESCRIPTOR`] on, for a program that is started
/// next. These numbers must not be in use.
pub fn place_descriptors(descriptors: Vec<OwnedFd>) -> io::Result<Vec<OwnedFd>> {
    // Move all out of the target range first: a descriptor may have the target number of another.
    let beyond = FIRST_DESCRIPTOR + MAX_DESCRIPTORS as RawFd;
    let mut away = Vec::new();
    for descriptor in descriptors {
        let moved = nix::fcntl::fcntl(&descriptor, nix::fcntl::FcntlArg::F_DUPFD_CLOEXEC(beyond))?;
        // SAFETY: the kernel just made this descriptor for the caller alone.
        away.push(unsafe { OwnedFd::from_raw_fd(moved) });
    }
    let mut placed = Vec::new();
    for (number, descriptor) in (FIRST_DESCRIPTOR..).zip(&away) {
        crate::sys::duplicate_to(descriptor, number)?;
        // SAFETY: just created, and not in use before by the contract of this function.
        placed.push(unsafe { OwnedFd::from_raw_fd(number) });
    }
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn descriptors_arrive_with_the_task_in_their_places() {
        let (here, there) = UnixStream::pair().unwrap();
        let pairs: Vec<_> = (0..3).map(|_| UnixStream::pair().unwrap()).collect();
        let errand = HelperTask {
            program: Some(VmmProgram {
                path: "/bin/true".into(),
                arguments: vec!["-x".into()],
            }),
            folder: None,
        };
        let given: Vec<_> = pairs.iter().map(|(_, far)| far.as_fd()).collect();
        errand.send(&here, &given).unwrap();
        let (got, descriptors) = HelperTask::receive(&there).unwrap();
        assert_eq!(got.program.unwrap().arguments, ["-x"]);
        assert_eq!(descriptors.len(), 3);
        for (number, (mut near, _)) in pairs.into_iter().enumerate() {
            near.write_all(&[number as u8]).unwrap();
        }
        for (number, descriptor) in descriptors.into_iter().enumerate() {
            let mut byte = [9];
            UnixStream::from(descriptor).read_exact(&mut byte).unwrap();
            assert_eq!(byte, [number as u8]);
        }
    }
}
