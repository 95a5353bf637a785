//! What is typed, read without ever waiting for it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::decoder::{Decoder, Heard};

/// Bytes that are taken in before anything else gets its turn.
const BATCH: usize = 256 * 1024;
/// How long an escape character alone may be the beginning of a sequence, and not the key.
const PATIENCE: Duration = Duration::from_millis(30);
/// How long the rest of a sequence may take: nobody waits for this one, and a slow line may cut it.
const LONG_PATIENCE: Duration = Duration::from_millis(200);
/// How long answers are waited for that would become words at the shell's prompt.
const FAREWELL: Duration = Duration::from_millis(100);

/// Nobody is there any more.
#[derive(Debug)]
pub(super) struct Gone;

#[derive(Debug, Default)]
pub(super) struct Keyboard {
    decoder: Decoder,
    /// When the last bytes came.
    fed: Duration,
}

impl Keyboard {
    pub(super) fn expect_colour(&mut self) {
        self.decoder.expect_colour();
    }

    /// Takes in what was typed by now.
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

    /// When half a sequence has to be taken for what it is.
    pub(super) fn doubts_until(&self) -> Option<Duration> {
        let patience = if self.decoder.is_escape() {
            PATIENCE
        } else {
            LONG_PATIENCE
        };
        self.decoder.is_unsure().then(|| self.fed + patience)
    }

    /// Whether nothing that was typed by now is unread.
    pub(super) fn is_quiet(&self) -> io::Result<bool> {
        Ok(self.decoder.is_idle() && !is_readable(Duration::ZERO)?)
    }

    /// Waits a little for answers to questions that were asked, so that the shell does not get them.
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
        // SAFETY: this descriptor stays open as long as the process lives.
        unsafe { BorrowedFd::borrow_raw(libc::STDIN_FILENO) }
    }
}

/// Whether there are bytes, or nobody is there any more.
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
