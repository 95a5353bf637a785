//! Waits for keys, notices and signals at once, with no thread and no wake-up for nothing.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use crossterm::event::{self, Event};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::waker::Waker;

/// Waits until there may be something to do.
pub(super) fn wait(waker: &Waker, longest: Option<Duration>) -> io::Result<()> {
    let input = io::stdin();
    let mut sources = [
        PollFd::new(input.as_fd(), PollFlags::POLLIN),
        PollFd::new(waker.as_fd(), PollFlags::POLLIN),
    ];
    let timeout = match longest {
        None => PollTimeout::NONE,
        // Rounded up, so that the moment has come when this returns.
        Some(longest) => {
            PollTimeout::try_from(longest + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX)
        }
    };
    match poll(&mut sources, timeout) {
        Ok(_) | Err(Errno::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    waker.quiet();
    Ok(())
}

/// What was typed, if anything was.
pub(super) fn next() -> io::Result<Option<Event>> {
    match event::poll(Duration::ZERO)? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}
