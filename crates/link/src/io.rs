//! A stream as `AsyncRead` and `AsyncWrite`, for proxies and forwarded ports.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::frame::FrameKind;
use crate::stream::{LinkItem, Stream, lock};

/// The data bytes of a [`Stream`]. A typed message on it is an error.
#[derive(Debug)]
pub struct StreamIo {
    stream: Stream,
    unread: Bytes,
}

impl From<Stream> for StreamIo {
    fn from(stream: Stream) -> Self {
        Self {
            stream,
            unread: Bytes::new(),
        }
    }
}

impl AsyncRead for StreamIo {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        while self.unread.is_empty() {
            let receiver = &self.stream.receiver;
            let item = ready!(lock(&receiver.shared).poll_receive(receiver.id, context));
            match item {
                Ok(Some(LinkItem::Data(bytes))) => self.unread = bytes,
                Ok(None) => return Poll::Ready(Ok(())),
                Ok(Some(_)) => return Poll::Ready(Err(io::ErrorKind::InvalidData.into())),
                Err(()) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            }
        }
        let length = self.unread.len().min(buffer.remaining());
        buffer.put_slice(&self.unread[..length]);
        self.unread.advance(length);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StreamIo {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sender = &self.stream.sender;
        let mut mux = lock(&sender.shared);
        let most = mux.max_payload_len(sender.id);
        let part = Bytes::copy_from_slice(&bytes[..bytes.len().min(most)]);
        let sent = ready!(mux.poll_send(sender.id, FrameKind::Data, &part, context));
        Poll::Ready(match sent {
            Ok(()) => Ok(part.len()),
            Err(()) => Err(io::ErrorKind::BrokenPipe.into()),
        })
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.sender.end();
        Poll::Ready(Ok(()))
    }
}
