//! A stream with already read bytes put back in front of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Reads `first`, then the stream; writes go to the stream.
#[derive(Debug)]
pub(crate) struct PrefixedStream<S> {
    first: Vec<u8>,
    read: usize,
    stream: S,
}

impl<S> PrefixedStream<S> {
    pub(crate) fn new(first: Vec<u8>, stream: S) -> PrefixedStream<S> {
        PrefixedStream {
            first,
            read: 0,
            stream,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefixedStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let rest = &self.first[self.read..];
        if rest.is_empty() {
            return Pin::new(&mut self.stream).poll_read(context, buffer);
        }
        let count = rest.len().min(buffer.remaining());
        buffer.put_slice(&rest[..count]);
        self.read += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefixedStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    #[tokio::test]
    async fn what_was_put_back_comes_first() {
        let mut stream = PrefixedStream::new(b"one".to_vec(), &b" two"[..]);
        let mut small = [0; 2];
        stream.read_exact(&mut small).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        assert_eq!((&small[..], rest.as_str()), (&b"on"[..], "e two"));
    }
}
