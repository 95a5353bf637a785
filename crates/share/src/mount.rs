//! The end inside: opens `/dev/fuse`, mounts, and leaves the rest to the pump.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};

use rustix::fs::{CWD, Mode, OFlags, fcntl_getfl, fcntl_setfl, openat, statfs};
use rustix::mount::MountFlags;
use thiserror::Error;

use crate::pump::{Pump, clone_device};

#[derive(Debug, Error)]
pub enum MountError {
    #[error("cannot open `/dev/fuse`")]
    OpenDevice { source: io::Error },
    #[error("cannot mount a shared folder at `{target}`")]
    Mount { target: PathBuf, source: io::Error },
    #[error("cannot use the channel of a shared folder")]
    Channel { source: io::Error },
}

/// A mounted folder. It stays mounted when this is dropped.
#[derive(Debug)]
pub struct Mount {
    pump: JoinHandle<io::Result<()>>,
}

impl Mount {
    /// Waits until the channel ends or the folder is unmounted.
    pub fn wait(self) -> io::Result<()> {
        let ended = self.pump.join();
        ended.unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
    }
}

/// Mounts at `target` what [`serve`](crate::serve) offers at the other end of `channel`.
pub fn mount(channel: OwnedFd, target: &Path) -> Result<Mount, MountError> {
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
    let options = CString::new(options).expect("numbers and words have no zero byte");
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
        .spawn(move || Pump::run(device, for_notices, channel))
        .map_err(|source| MountError::Channel { source })?;
    Ok(Mount { pump })
}

/// Waits until all that the host has changed so far is what programs inside see.
///
/// The kernel inside believes for a while what it was told, and is told when it should not. That
/// takes a moment, which is over when this returns: to be called between hearing from the host and
/// looking at files for it. `target` is the mount, or anything in it.
pub fn settle(target: &Path) -> io::Result<()> {
    statfs(target)?;
    Ok(())
}

/// Whether a folder is one that [`settle`] is for, as far as the kernel says what it is.
pub fn is_shared(target: &Path) -> bool {
    const FUSE: u64 = 0x6573_5546;
    statfs(target).is_ok_and(|found| found.f_type as u64 == FUSE)
}
