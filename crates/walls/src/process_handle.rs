//! A pidfd of a process that another program started. A pid can be reused; a pidfd always refers to the same
//! process. Entry type: [`ProcessHandle`].

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use crate::sys;

/// A process that is not a child of this one. The descriptor is readable once it has ended.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Fails if the process does not exist any more.
    pub fn open(pid: i32) -> io::Result<Self> {
        Ok(Self(sys::open_pidfd(pid)?))
    }

    /// Kills the process. Does nothing if it has already ended.
    pub fn kill(&self) {
        let _ = sys::signal(&self.0, libc::SIGKILL);
    }
}

impl AsFd for ProcessHandle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for ProcessHandle {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
