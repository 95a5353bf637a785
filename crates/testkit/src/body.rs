//! A response body that is written while it is sent, and may be cut off.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::mpsc;

use crate::answer::RawChunk;
use crate::counter::Counter;

/// The server breaks the connection in the middle of a response.
#[derive(Debug)]
pub(crate) struct Broken;

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the script breaks the connection here")
    }
}

impl std::error::Error for Broken {}

#[derive(Debug)]
pub(crate) struct WrittenBody {
    chunks: mpsc::Receiver<Result<Bytes, Broken>>,
    is_over: bool,
    hang_ups: Arc<Counter>,
}

impl WrittenBody {
    /// A body that a task writes step by step until the steps end or the client disconnects.
    pub(crate) fn begin(steps: Vec<RawChunk>, hang_ups: &Arc<Counter>) -> Self {
        // Capacity 1: hyper then writes and flushes each chunk before it receives the next one, so
        // that nothing before a cut or a gate is lost in a buffer.
        let (writer, chunks) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                _ = write(steps, &writer) => {}
                () = writer.closed() => {}
            }
        });
        Self {
            chunks,
            is_over: false,
            hang_ups: Arc::clone(hang_ups),
        }
    }
}

type Gone = mpsc::error::SendError<Result<Bytes, Broken>>;

async fn write(
    steps: Vec<RawChunk>,
    writer: &mpsc::Sender<Result<Bytes, Broken>>,
) -> Result<(), Gone> {
    for step in steps {
        match step {
            RawChunk::Bytes(bytes) => writer.send(Ok(bytes)).await?,
            RawChunk::Hold(gate) => {
                // Free capacity means that hyper has taken the last chunk, which it flushes
                // immediately.
                drop(writer.reserve().await);
                gate.pass().await;
            }
            RawChunk::Pause(time) => tokio::time::sleep(time).await,
            RawChunk::Cut => writer.send(Err(Broken)).await?,
        }
    }
    Ok(())
}

impl Body for WrittenBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let polled = self.chunks.poll_recv(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.is_over = true;
        }
        polled.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

impl Drop for WrittenBody {
    fn drop(&mut self) {
        if !self.is_over {
            self.hang_ups.add();
        }
    }
}
