//! The end inside the machine: opens `/dev/fuse`, mounts, and starts the pump.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat, statfs};
use rustix::mount::MountFlags;
use thiserror::Error;

use crate::pump::{FusePump, clone_device};

#[derive(Debug, Error)]
pub enum MountError {
    #[error("cannot open `/dev/fuse`")]
    OpenDevice { source: io::Error },
    #[error("cannot mount a shared folder at `{target}`")]
    Mount { target: PathBuf, source: io::Error },
    #[error("cannot use the channel of a shared folder")]
    Channel { source: io::Error },
}

/// A mounted folder. Dropping this does not unmount it.
#[derive(Debug)]
pub struct MountedShare {
    pump: JoinHandle<io::Result<()>>,
}

impl MountedShare {
    /// Waits until the channel ends or the folder is unmounted.
    pub fn wait(self) -> io::Result<()> {
        let ended = self.pump.join();
        ended.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

/// Mounts at `target` the folder that [`serve`](crate::serve) serves at the other end of `channel`.
pub fn mount(channel: OwnedFd, target: &Path) -> Result<MountedShare, MountError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let device = openat(CWD, c"/dev/fuse", flags, Mode::empty()).map_err(|error| {
        MountError::OpenDevice {
            source: error.into(),
        }
    })?;
    fcntl_getfl(&channel)
        .and_then(|flags| fcntl_setfl(&channel, flags | OFlags::NONBLOCK))
        .map_err(|error| MountError::Channel {
            source: error.into(),
        })?;
    let options = format!(
        "fd={},rootmode=40000,user_id=0,group_id=0,default_permissions,allow_other",
        device.as_raw_fd()
    );
    let options = CString::new(options).expect("the options contain no zero byte");
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    rustix::mount::mount("workspace", target, "fuse", flags, options.as_c_str()).map_err(
        |error| MountError::Mount {
            target: target.to_owned(),
            source: error.into(),
        },
    )?;
    let for_notices = clone_device(&device).map_err(|error| MountError::OpenDevice {
        source: error.into(),
    })?;
    let pump = thread::Builder::new()
        .name("share-pump".into())
        .spawn(move || FusePump::run(device, for_notices, channel))
        .map_err(|source| MountError::Channel { source })?;
    Ok(MountedShare { pump })
}

/// Waits until programs inside see all changes that the host has made so far.
///
/// The kernel inside caches names and attributes, and the invalidations for changes of the host arrive
/// with a delay. They have been processed when this returns. Call it after a message from the host and
/// before reading files for it. `target` is the mount or any path in it.
pub fn settle(target: &Path) -> io::Result<()> {
    statfs(target)?;
    Ok(())
}

/// Whether a folder is on a FUSE mount, so that [`settle`] applies.
pub fn is_fuse_mount(target: &Path) -> bool {
    const FUSE: u64 = 0x6573_5546;
    statfs(target).is_ok_and(|found| found.f_type as u64 == FUSE)
}
