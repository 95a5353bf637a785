//! This program's standard streams, unbuffered and with unchanged flags, because they may be shared with
//! other processes.
//!
//! Reads and writes that do not block are done directly; only those that would block get a thread.

use std::fs::File;
use std::io::{self, Read, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, FromRawFd};

use bytes::Bytes;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{mpsc, oneshot};

/// Bytes read at once.
const CHUNK: usize = 64 * 1024;

/// A pipe that is ready accepts this much without blocking.
const CERTAIN: usize = libc::PIPE_BUF;

/// Chunks queued for the writing thread.
const QUEUE: usize = 8;

/// One of the three standard streams.
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
}

/// Resolves when the reader of standard output has closed it, even if nothing is written. Never resolves
/// if that cannot be detected.
pub(crate) async fn reader_left() {
    // SAFETY: standard output is neither closed nor replaced by this process.
    let watched = unsafe { AsyncFd::register_with_interest(io::stdout(), Interest::ERROR) };
    let has_left = match &watched {
        Ok(output) => output.ready(Interest::ERROR).await.is_ok(),
        // A file has no reader, and cannot be polled.
        Err(_) => false,
    };
    if !has_left {
        std::future::pending().await
    }
}

/// Writes to standard output and standard error, in order, because they may be the same stream.
#[derive(Default)]
pub(crate) struct Outlet {
    writer: Option<Writer>,
}

/// A writing thread, started once a write would block.
struct Writer {
    queue: mpsc::Sender<(Standard, Bytes)>,
    done: oneshot::Receiver<()>,
}

impl Outlet {
    /// Fails once standard output is closed. A closed standard error is ignored.
    pub(crate) async fn write(&mut self, to: Standard, bytes: Bytes) -> io::Result<()> {
        if self.writer.is_none() && bytes.len() <= CERTAIN && to.is_ready(PollFlags::POLLOUT) {
            return write_now(to, &bytes);
        }
        let writer = self.writer.get_or_insert_with(Writer::start);
        let sent = writer.queue.send((to, bytes)).await;
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// Waits until everything is written.
    pub(crate) async fn finish(self) {
        if let Some(writer) = self.writer {
            drop(writer.queue);
            let _ = writer.done.await;
        }
    }
}

impl Writer {
    fn start() -> Self {
        let (queue, mut chunks) = mpsc::channel::<(Standard, Bytes)>(QUEUE);
        let (all_written, done) = oneshot::channel();
        std::thread::spawn(move || {
            while let Some((to, bytes)) = chunks.blocking_recv() {
                if write_now(to, &bytes).is_err() {
                    break;
                }
            }
            let _ = all_written.send(());
        });
        Self { queue, done }
    }
}

fn write_now(to: Standard, bytes: &[u8]) -> io::Result<()> {
    let written = to.file().write_all(bytes);
    if to.0 == ERRORS.0 { Ok(()) } else { written }
}
