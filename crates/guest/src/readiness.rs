//! Asynchronous readiness of descriptors that tokio has no type for.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};

use tokio::io::unix::AsyncFd;

/// Adapts an owner of one descriptor to `AsRawFd`.
pub(crate) struct DescriptorOwner<T>(pub(crate) T);

impl<T: AsFd> AsRawFd for DescriptorOwner<T> {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

pub(crate) fn register<T: AsFd>(owner: T) -> io::Result<AsyncFd<DescriptorOwner<T>>> {
    // SAFETY: the owner is moved in and never changed, so it keeps its descriptor open until it is dropped
    // together with the registration.
    unsafe { AsyncFd::register(DescriptorOwner(owner)) }.map_err(io::Error::from)
}
