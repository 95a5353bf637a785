//! Descriptors that the supervisor opens with the host's privileges while process 1 builds its root, and
//! then sends to it: mounts, and the `tasks` files of cgroups.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, UnixAddr, recvmsg, sendmsg};

use crate::plan::{SetupStage, WallsPlan};
use crate::root::{self, DetachedMounts};
use crate::supervisor::{SetupContext, SetupResult};

/// An upper bound on the descriptors of one message; no plan needs as many.
const MAX_DESCRIPTORS: usize = 32;

pub(crate) struct SuppliedDescriptors {
    /// Detached mounts, by their target inside.
    pub(crate) trees: DetachedMounts,
    /// `tasks` files: writing `0` moves the calling thread into the cgroup.
    pub(crate) groups: Vec<File>,
}

impl SuppliedDescriptors {
    /// Sends the mounts in the order of the plan, then the cgroup files.
    pub(crate) fn send(&self, line: &UnixStream, plan: &WallsPlan) -> SetupResult<()> {
        let trees =
            root::supervisor_mount_targets(plan).filter_map(|target| self.trees.get(target));
        let groups = self.groups.iter().map(AsRawFd::as_raw_fd);
        let all: Vec<RawFd> = trees.map(AsRawFd::as_raw_fd).chain(groups).collect();
        let rights = [ControlMessage::ScmRights(&all)];
        let control: &[ControlMessage<'_>] = if all.is_empty() { &[] } else { &rights };
        let byte = [IoSlice::new(&[1])];
        sendmsg::<UnixAddr>(line.as_raw_fd(), &byte, control, MsgFlags::empty(), None)
            .at(SetupStage::Start, "send descriptors")?;
        Ok(())
    }

    pub(crate) fn receive(line: &UnixStream, plan: &WallsPlan) -> SetupResult<Self> {
        const STEP: &str = "receive descriptors";
        let mut byte = [0];
        let mut slices = [IoSliceMut::new(&mut byte)];
        let mut space = nix::cmsg_space!([RawFd; MAX_DESCRIPTORS]);
        let flags = MsgFlags::MSG_CMSG_CLOEXEC;
        let message = recvmsg::<UnixAddr>(line.as_raw_fd(), &mut slices, Some(&mut space), flags)
            .at(SetupStage::Start, STEP)?;
        let mut descriptors: Vec<OwnedFd> = Vec::new();
        for control in message.cmsgs().at(SetupStage::Start, STEP)? {
            if let ControlMessageOwned::ScmRights(numbers) = control {
                // SAFETY: the kernel just made these descriptors for this process alone.
                descriptors.extend(
                    numbers
                        .into_iter()
                        .map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }),
                );
            }
        }
        if message.bytes == 0 {
            return Err(io::Error::from_raw_os_error(libc::EPIPE)).at(SetupStage::Start, STEP);
        }
        let mut descriptors = descriptors.into_iter();
        let trees = root::supervisor_mount_targets(plan)
            .map(|target| target.to_owned())
            .zip(&mut descriptors)
            .collect();
        Ok(Self {
            trees,
            groups: descriptors.map(File::from).collect(),
        })
    }
}
