//! Reads the keyboard without blocking.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::decoder::{InputDecoder, TerminalInput};

/// Maximum number of bytes read before other work gets its turn.
const MAX_BATCH_BYTES: usize = 256 * 1024;
/// How long a lone escape character may still become a sequence before it counts as the Esc key.
const ESCAPE_TIMEOUT: Duration = Duration::from_millis(30);
/// How long the rest of a sequence may take. This can be longer: it delays no key, and a slow line
/// may split a sequence.
const SEQUENCE_TIMEOUT: Duration = Duration::from_millis(200);
/// How long to wait at exit for answers that would otherwise appear at the shell's prompt.
const LATE_ANSWER_TIMEOUT: Duration = Duration::from_millis(100);

/// The terminal has been closed.
#[derive(Debug)]
pub(super) struct TerminalClosed;

#[derive(Debug, Default)]
pub(super) struct Keyboard {
    decoder: InputDecoder,
    /// Time of the last read.
    fed: Duration,
}

impl Keyboard {
    pub(super) fn expect_colour(&mut self) {
        self.decoder.expect_colour();
    }

    /// Reads everything that has been typed so far.
    pub(super) fn read(&mut self, now: Duration) -> io::Result<Result<(), TerminalClosed>> {
        let mut buffer = [0; 16 * 1024];
        let mut taken = 0;
        while taken < MAX_BATCH_BYTES && is_readable(Duration::ZERO)? {
            match nix::unistd::read(io::stdin(), &mut buffer) {
                Ok(0) | Err(Errno::EIO) => return Ok(Err(TerminalClosed)),
                Ok(length) => {
                    self.decoder.feed(&buffer[..length]);
                    self.fed = now;
                    taken += length;
                }
                Err(Errno::EAGAIN | Errno::EINTR) => break,
                Err(error) => return Err(error.into()),
            }
        }
        if self
            .partial_sequence_deadline()
            .is_some_and(|until| now >= until)
        {
            self.decoder.expire();
        }
        Ok(Ok(()))
    }

    pub(super) fn next(&mut self) -> Option<TerminalInput> {
        self.decoder.next()
    }

    /// When an incomplete sequence has to be decoded as it is.
    pub(super) fn partial_sequence_deadline(&self) -> Option<Duration> {
        let patience = if self.decoder.is_escape() {
            ESCAPE_TIMEOUT
        } else {
            SEQUENCE_TIMEOUT
        };
        self.decoder
            .has_partial_sequence()
            .then(|| self.fed + patience)
    }

    /// Whether everything typed so far has been read.
    pub(super) fn is_drained(&self) -> io::Result<bool> {
        Ok(self.decoder.is_idle() && !is_readable(Duration::ZERO)?)
    }

    /// Waits a little for answers to queries, so that the shell does not get them.
    pub(super) fn leave(&mut self, now: Duration) -> io::Result<()> {
        while self.decoder.expects_answer() && is_readable(LATE_ANSWER_TIMEOUT)? {
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
