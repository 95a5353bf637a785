//! Reads the keyboard without blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::decoder::{Decoder, Heard};

/// Maximum number of bytes read before other work gets its turn.
const BATCH: usize = 256 * 1024;
/// How long a lone escape character may still become a sequence before it counts as the Esc key.
const PATIENCE: Duration = Duration::from_millis(30);
/// How long the rest of a sequence may take. This can be longer: it delays no key, and a slow line
/// may split a sequence.
const LONG_PATIENCE: Duration = Duration::from_millis(200);
/// How long to wait at exit for answers that would otherwise appear at the shell's prompt.
const FAREWELL: Duration = Duration::from_millis(100);

/// The terminal has been closed.
#[derive(Debug)]
pub(super) struct Gone;

#[derive(Debug, Default)]
pub(super) struct Keyboard {
    decoder: Decoder,
    /// Time of the last read.
    fed: Duration,
}

impl Keyboard {
    pub(super) fn expect_colour(&mut self) {
        self.decoder.expect_colour();
    }

    /// Reads everything that has been typed so far.
    pub(super) fn read(&mut self, now: Duration) -> io::Result<Result<(), Gone>> {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < BATCH && is_readable(Duration::ZERO)? {
            match nix::unistd::read(io::stdin(), &mut buffer) {
                Ok(0) | Err(Errno::EIO) => return Ok(Err(Gone)),
                Ok(length) => {
                    self.decoder.feed(&buffer[..length]);
                    self.fed = now;
                    taken += length;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self.doubts_until().is_some_and(|until| now >= until) {
            self.decoder.expire();
        }
        Ok(Ok(()))
    }

    pub(super) fn next(&mut self) -> Option<Heard> {
        self.decoder.next()
    }

    /// When an incomplete sequence has to be decoded as it is.
    pub(super) fn doubts_until(&self) -> Option<Duration> {
        let patience = if self.decoder.is_escape() {
            PATIENCE
        } else {
            LONG_PATIENCE
        };
        self.decoder.is_unsure().then(|| self.fed + patience)
    }

    /// Whether everything typed so far has been read.
    pub(super) fn is_quiet(&self) -> io::Result<bool> {
        Ok(self.decoder.is_idle() && !is_readable(Duration::ZERO)?)
    }

    /// Waits a little for answers to queries, so that the shell does not get them.
    pub(super) fn leave(&mut self, now: Duration) -> io::Result<()> {
        while self.decoder.is_expecting() && is_readable(FAREWELL)? {
            if self.read(now)?.is_err() {
                break;
            }
        }
        Ok(())
    }
}

impl AsFd for Keyboard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: standard input stays open as long as the process lives.
        unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
    }
}

/// Whether there is something to read, or the terminal has been closed.
fn is_readable(longest: Duration) -> io::Result<bool> {
    let input = io::stdin();
    let mut source = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
    let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
    match poll(&mut source, timeout) {
        Ok(count) => Ok(count > 0),
        Err(Errno::EINTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
