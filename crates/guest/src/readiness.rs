//! Waiting for descriptors that tokio has no type of its own for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tokio::io::unix::AsyncFd;

/// An owner of one descriptor, whatever else it is.
pub(crate) struct Source<T>(pub(crate) T);

impl<T: AsFd> AsRawFd for Source<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

pub(crate) fn register<T: AsFd>(owner: T) -> io::Result<AsyncFd<Source<T>>> {
    // SAFETY: the owner is moved in, is never changed behind a shared reference, and so keeps
    // its one descriptor open until it is dropped with the registration.
    unsafe { AsyncFd::register(Source(owner)) }.map_err(io::Error::from)
}
