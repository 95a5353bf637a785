//! The transport of the link: a socket, two pipes, or a port of a virtual machine. Uses the plain read and
//! write calls, which work on all of them.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::readiness::{DescriptorOwner, register};

/// Both directions of the transport. Blocking until [`split`](Self::split).
pub(crate) struct Channel {
    from_host: std::fs::File,
    to_host: std::fs::File,
}

impl Channel {
    /// Uses one descriptor for both directions: a socket or a port.
    pub(crate) fn from_socket(link: OwnedFd) -> io::Result<Self> {
        let to_host = link.try_clone()?;
        Ok(Self::new(link, to_host))
    }

    pub(crate) fn new(from_host: OwnedFd, to_host: OwnedFd) -> Self {
        Self {
            from_host: from_host.into(),
            to_host: to_host.into(),
        }
    }

    /// The two directions as asynchronous streams: from the host, to the host. Needs a running runtime.
    pub(crate) fn split(self) -> io::Result<(ChannelEnd, ChannelEnd)> {
        Ok((
            ChannelEnd::new(self.from_host)?,
            ChannelEnd::new(self.to_host)?,
        ))
    }
}

impl Read for &Channel {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        (&self.from_host).read(buffer)
    }
}

impl Write for &Channel {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.to_host).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One direction.
pub(crate) struct ChannelEnd(AsyncFd<DescriptorOwner<std::fs::File>>);

impl ChannelEnd {
    fn new(file: std::fs::File) -> io::Result<Self> {
        let flags = OFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GETFL)?);
        fcntl(&file, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
        Ok(Self(register(file)?))
    }
}

impl AsyncRead for ChannelEnd {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut ready = ready!(self.0.poll_read_ready(context))?;
            let room = buffer.initialize_unfilled();
            match ready.try_io(|source| (&source.get_ref().0).read(room)) {
                Ok(read) => {
                    buffer.advance(read?);
                    return Poll::Ready(Ok(()));
                }
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for ChannelEnd {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    /// One system call for several buffers: a frame is a header and a payload, an answer several frames.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let mut ready = ready!(self.0.poll_write_ready(context))?;
            match ready.try_io(|source| (&source.get_ref().0).write_vectored(parts)) {
                Ok(written) => return Poll::Ready(written),
                Err(_would_block) => {}
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
