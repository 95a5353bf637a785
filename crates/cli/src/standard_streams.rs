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
const READ_CHUNK_BYTES: usize = 64 * 1024;

/// A pipe that is ready accepts this much without blocking.
const NONBLOCKING_WRITE_BYTES: usize = libc::PIPE_BUF;

/// Chunks queued for the writing thread.
const WRITER_QUEUE_CHUNKS: usize = 8;

/// One of the three standard streams.
#[derive(Clone, Copy)]
pub(crate) struct StandardStream(i32);

pub(crate) const STDIN: StandardStream = StandardStream(0);
pub(crate) const STDOUT: StandardStream = StandardStream(1);
pub(crate) const STDERR: StandardStream = StandardStream(2);

impl StandardStream {
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
        let mut buffer = vec![0; READ_CHUNK_BYTES];
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
pub(crate) async fn stdout_closed() {
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
pub(crate) struct StreamWriter {
    writer: Option<WriterThread>,
}

/// A writing thread, started once a write would block.
struct WriterThread {
    queue: mpsc::Sender<(StandardStream, Bytes)>,
    done: oneshot::Receiver<()>,
}

impl StreamWriter {
    /// Fails once standard output is closed. A closed standard error is ignored.
    pub(crate) async fn write(&mut self, to: StandardStream, bytes: Bytes) -> io::Result<()> {
        if self.writer.is_none()
            && bytes.len() <= NONBLOCKING_WRITE_BYTES
            && to.is_ready(PollFlags::POLLOUT)
        {
            return write_now(to, &bytes);
        }
        let writer = self.writer.get_or_insert_with(WriterThread::start);
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

impl WriterThread {
    fn start() -> Self {
        let (queue, mut chunks) = mpsc::channel::<(StandardStream, Bytes)>(WRITER_QUEUE_CHUNKS);
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

fn write_now(to: StandardStream, bytes: &[u8]) -> io::Result<()> {
    let written = to.file().write_all(bytes);
    if to.0 == STDERR.0 { Ok(()) } else { written }
}
