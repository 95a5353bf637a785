//! Reads and writes complete messages on a byte stream. Looks only at their lengths.

use std::io;
use std::os::fd::BorrowedFd;

use nix::sys::signal::{SigSet, Signal};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::abi::MAX_MESSAGE_BYTES;

/// Bytes per read, so that several short messages need one system call.
const READ_AHEAD_BYTES: usize = 64 * 1024;

/// Reads messages from the channel.
#[derive(Debug)]
pub(crate) struct MessageReader<'a> {
    channel: BorrowedFd<'a>,
    ahead: Vec<u8>,
    /// Bytes of `ahead` that have been consumed.
    taken: usize,
    shortest: usize,
    has_ended: bool,
}

impl<'a> MessageReader<'a> {
    /// Shorter messages are invalid.
    pub(crate) fn new(channel: BorrowedFd<'a>, shortest: usize) -> Self {
        Self {
            channel,
            ahead: Vec::new(),
            taken: 0,
            shortest,
            has_ended: false,
        }
    }

    /// Reads the next message into `message`; false when there are no more. Also returns false after
    /// an error.
    pub(crate) fn next(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        if self.has_ended {
            return Ok(false);
        }
        let more = self.read_message(message);
        self.has_ended = !matches!(more, Ok(true));
        more
    }

    fn read_message(&mut self, message: &mut Vec<u8>) -> io::Result<bool> {
        while self.ahead.len() - self.taken < 4 {
            if !self.read_ahead()? {
                return match self.ahead.len() - self.taken {
                    0 => Ok(false),
                    _ => Err(io::ErrorKind::UnexpectedEof.into()),
                };
            }
        }
        let start = &self.ahead[self.taken..];
        let length = u32::from_le_bytes([start[0], start[1], start[2], start[3]]) as usize;
        if length < self.shortest || length > MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        message.clear();
        let here = start.len().min(length);
        message.extend_from_slice(&start[..here]);
        self.taken += here;
        // The remaining bytes of a long message are read directly into it.
        message.resize(length, 0);
        let mut filled = here;
        while filled < length {
            filled += match read_blocking(self.channel, &mut message[filled..])? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => read,
            };
        }
        Ok(true)
    }

    /// False at the end.
    fn read_ahead(&mut self) -> io::Result<bool> {
        self.ahead.drain(..self.taken);
        self.taken = 0;
        let filled = self.ahead.len();
        self.ahead.resize(filled + READ_AHEAD_BYTES, 0);
        let read = read_blocking(self.channel, &mut self.ahead[filled..]);
        self.ahead
            .truncate(filled + read.as_ref().copied().unwrap_or(0));
        Ok(read? > 0)
    }
}

/// Waits for data even if the descriptor is non-blocking.
fn read_blocking(channel: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<usize> {
    loop {
        match rustix::io::read(channel, &mut *buffer) {
            Ok(read) => return Ok(read),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_ready(channel, PollFlags::IN)?,
            // The peer closed with unread data: treated as the end.
            Err(Errno::CONNRESET) => return Ok(0),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Writes a whole message.
pub(crate) fn write_all(channel: BorrowedFd<'_>, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(channel, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait_until_ready(channel, PollFlags::OUT)?,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn wait_until_ready(channel: BorrowedFd<'_>, what: PollFlags) -> io::Result<()> {
    match poll(&mut [PollFd::from_borrowed_fd(channel, what)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Blocks `SIGXFSZ` and `SIGPIPE` in this thread, so that a file that is too large and a closed peer
/// are errors instead of killing the process.
pub(crate) fn block_signals() -> io::Result<()> {
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGXFSZ);
    signals.add(Signal::SIGPIPE);
    Ok(signals.thread_block()?)
}
