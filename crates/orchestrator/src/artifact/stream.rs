//! Streams a zip while it is made, at most a few chunks ahead of the reader.

use std::io::{self, Write};
use std::path::PathBuf;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use tokio::sync::mpsc;

use super::ZipLimits;
use super::packer::Packer;
use crate::tree::UntrustedTree;

const CHUNK_BYTES: usize = 64 << 10;

/// Chunks that are buffered ahead of the reader.
const MAX_CHUNKS_AHEAD: usize = 4;

/// Packs a workspace for a reader. Packing stops when the stream is dropped; an error is the last
/// item.
pub(crate) fn stream(
    workspace: PathBuf,
    bounds: ZipLimits,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let (sender, receiver) = mpsc::channel(MAX_CHUNKS_AHEAD);
    tokio::task::spawn_blocking(move || {
        let writer = ChunkWriter {
            sender: sender.clone(),
            piece: Vec::with_capacity(CHUNK_BYTES),
        };
        let packed = UntrustedTree::open(&workspace)
            .and_then(|tree| Packer::new(writer, bounds).pack(&tree));
        if let Err(error) = packed {
            // The reader may be gone, and that may be the error.
            let _ = sender.blocking_send(Err(error));
        }
    });
    stream::unfold(receiver, async |mut receiver| {
        let piece = receiver.recv().await?;
        Some((piece, receiver))
    })
}

#[derive(Debug)]
struct ChunkWriter {
    sender: mpsc::Sender<io::Result<Bytes>>,
    piece: Vec<u8>,
}

impl ChunkWriter {
    fn send(&mut self) -> io::Result<()> {
        let piece = std::mem::replace(&mut self.piece, Vec::with_capacity(CHUNK_BYTES));
        let sent = self.sender.blocking_send(Ok(piece.into()));
        sent.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

impl Write for ChunkWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = bytes.len().min(CHUNK_BYTES - self.piece.len());
        self.piece.extend_from_slice(&bytes[..length]);
        if self.piece.len() == CHUNK_BYTES {
            self.send()?;
        }
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.piece.is_empty() {
            Ok(())
        } else {
            self.send()
        }
    }
}
