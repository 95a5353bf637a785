//! Waits for keys, notices, signals and a timeout at once, without a thread or periodic wake-ups.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

/// Returns when a source is readable, or after the timeout.
pub(super) fn wait_readable(
    sources: [BorrowedFd<'_>; 3],
    longest: Option<Duration>,
) -> io::Result<()> {
    let mut sources = sources.map(|source| PollFd::new(source, PollFlags::POLLIN));
    let timeout = longest.map(TimeSpec::from_duration);
    match ppoll(&mut sources, timeout, None) {
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
