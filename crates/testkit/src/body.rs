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
pub(crate) struct ConnectionBroken;

impl fmt::Display for ConnectionBroken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the script breaks the connection here")
    }
}

impl std::error::Error for ConnectionBroken {}

#[derive(Debug)]
pub(crate) struct ScriptedBody {
    chunks: mpsc::Receiver<Result<Bytes, ConnectionBroken>>,
    is_over: bool,
    hang_ups: Arc<Counter>,
}

impl ScriptedBody {
    /// A body that a task writes step by step until the steps end or the client disconnects.
    pub(crate) fn begin(steps: Vec<RawChunk>, hang_ups: &Arc<Counter>) -> Self {
        // Capacity 1: hyper then writes and flushes each chunk before it receives the next one, so
        // that nothing before a cut or a gate is lost in a buffer.
        let (writer, chunks) = mpsc::channel(1);
        tokio::spawn(async move {
            tokio::select! {
                _ = write_steps(steps, &writer) => {}
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

type BodyDropped = mpsc::error::SendError<Result<Bytes, ConnectionBroken>>;

async fn write_steps(
    steps: Vec<RawChunk>,
    writer: &mpsc::Sender<Result<Bytes, ConnectionBroken>>,
) -> Result<(), BodyDropped> {
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
            RawChunk::Cut => writer.send(Err(ConnectionBroken)).await?,
        }
    }
    Ok(())
}

impl Body for ScriptedBody {
    type Data = Bytes;
    type Error = ConnectionBroken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionBroken>>> {
        let polled = self.chunks.poll_recv(context);
        if let Poll::Ready(None | Some(Err(_))) = polled {
            self.is_over = true;
        }
        polled.map(|chunk| chunk.map(|chunk| chunk.map(Frame::data)))
    }
}

impl Drop for ScriptedBody {
    fn drop(&mut self) {
        if !self.is_over {
            self.hang_ups.add();
        }
    }
}
