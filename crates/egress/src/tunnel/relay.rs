//! Relays bytes from one side to the other with one bounded buffer.

use std::io;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::forward::UpgradeBridge;

/// Buffer of one direction in bytes.
const RELAY_BUFFER_BYTES: usize = 32 << 10;

/// One direction. Its state outlives the futures of [`Self::run`], so that these can be dropped and
/// restarted without losing a byte.
#[derive(Debug, Default)]
pub(super) struct RelayDirection {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    moved: bool,
    ended: bool,
    closed: bool,
}

impl RelayDirection {
    /// Moves bytes until the source ends, then shuts down the sink.
    pub(super) async fn run(
        &mut self,
        source: &mut (impl AsyncRead + Unpin),
        sink: &mut (impl AsyncWrite + Unpin),
    ) -> io::Result<()> {
        self.buffer.resize(RELAY_BUFFER_BYTES, 0);
        loop {
            if self.closed {
                return Ok(());
            }
            self.flush(sink).await?;
            if self.ended {
                sink.shutdown().await?;
                self.closed = true;
                return Ok(());
            }
            let count = source.read(&mut self.buffer).await?;
            (self.start, self.end) = (0, count);
            self.ended = count == 0;
            self.moved |= count > 0;
        }
    }

    /// Writes the buffered bytes.
    pub(super) async fn flush(&mut self, sink: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        while self.start < self.end {
            match sink.write(&self.buffer[self.start..self.end]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                count => self.start += count,
            }
        }
        sink.flush().await
    }

    /// Whether no byte was ever read.
    pub(super) fn is_unused(&self) -> bool {
        !self.moved
    }
}

/// Relays an upgraded connection until both sides have ended.
pub(crate) async fn bridge(bridge: UpgradeBridge) {
    let (Ok(client), Ok(server)) = tokio::join!(bridge.client, bridge.server) else {
        return;
    };
    let (mut client_read, mut client_write) = tokio::io::split(TokioIo::new(client));
    let (mut server_read, mut server_write) = tokio::io::split(TokioIo::new(server));
    let (mut up, mut down) = (RelayDirection::default(), RelayDirection::default());
    let up = up.run(&mut client_read, &mut server_write);
    let down = down.run(&mut server_read, &mut client_write);
    if let Err(error) = tokio::try_join!(up, down) {
        tracing::debug!(%error, "bridge ended");
    }
}
