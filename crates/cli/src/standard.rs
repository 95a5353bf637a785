//! This program's own standard streams, without buffers and without changing them: they may be
//! shared with others, so they stay in whatever mode they are in.
//!
//! What can be done at once is done at once; only what would block gets a thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd};

use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

/// Read or written at once.
const CHUNK: usize = 64 * 1024;

/// A pipe that is ready takes this much without blocking.
const CERTAIN: usize = libc::PIPE_BUF;

/// One of the three.
#[derive(Clone, Copy)]
pub(crate) struct Standard(i32);

pub(crate) const INPUT: Standard = Standard(0);
pub(crate) const OUTPUT: Standard = Standard(1);
pub(crate) const ERRORS: Standard = Standard(2);

impl Standard {
    fn file(self) -> ManuallyDrop<File> {
        // SAFETY: the descriptor belongs to the process for its whole life; never closed here.
        ManuallyDrop::new(unsafe { File::from_raw_fd(self.0) })
    }

    fn is_ready(self, events: PollFlags) -> bool {
        let file = self.file();
        let mut one = [PollFd::new(file.as_fd(), events)];
        matches!(poll(&mut one, PollTimeout::ZERO), Ok(1..))
    }

    /// The next bytes; empty at the end.
    pub(crate) async fn read(self) -> io::Result<Bytes> {
        if self.is_ready(PollFlags::POLLIN) {
            return self.read_now();
        }
        tokio::task::spawn_blocking(move || self.read_now()).await?
    }

    fn read_now(self) -> io::Result<Bytes> {
        let mut buffer = vec![0; CHUNK];
        let length = loop {
            match self.file().read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => break outcome?,
            }
        };
        buffer.truncate(length);
        Ok(buffer.into())
    }

    pub(crate) async fn write(self, bytes: Bytes) -> io::Result<()> {
        if bytes.len() <= CERTAIN && self.is_ready(PollFlags::POLLOUT) {
            return self.file().write_all(&bytes);
        }
        tokio::task::spawn_blocking(move || self.file().write_all(&bytes)).await?
    }
}
