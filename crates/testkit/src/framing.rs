//! How a stream of events is split into chunks of the body. Clients must not depend on it.

use bytes::{Bytes, BytesMut};

use crate::answer::RawChunk;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Framing {
    pub chunking: Chunking,
    pub line_ends: LineEnding,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Chunking {
    /// One chunk per event.
    #[default]
    Events,
    /// Chunks of this many bytes, independent of event boundaries.
    Bytes(usize),
    /// As few chunks as gates and pauses allow. The fastest option.
    Whole,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LineEnding {
    #[default]
    Lf,
    CrLf,
    Cr,
}

impl Framing {
    pub fn bytes(count: usize) -> Self {
        Self {
            chunking: Chunking::Bytes(count),
            ..Self::default()
        }
    }

    pub fn whole() -> Self {
        Self {
            chunking: Chunking::Whole,
            ..Self::default()
        }
    }

    pub fn lines(line_ends: LineEnding) -> Self {
        Self {
            line_ends,
            ..Self::default()
        }
    }

    /// An event with its line ends converted. JSON has no raw line ends, so all of them belong to
    /// the event.
    pub(crate) fn convert_line_ends(self, event: String) -> Bytes {
        match self.line_ends {
            LineEnding::Lf => event,
            LineEnding::CrLf => event.replace('\n', "\r\n"),
            LineEnding::Cr => event.replace('\n', "\r"),
        }
        .into()
    }

    pub(crate) fn cut(self, chunks: Vec<RawChunk>) -> Vec<RawChunk> {
        let most = match self.chunking {
            Chunking::Events => return chunks,
            Chunking::Bytes(count) => count.max(1),
            Chunking::Whole => usize::MAX,
        };
        let mut cut = Vec::new();
        let mut run = BytesMut::new();
        for chunk in chunks {
            match chunk {
                RawChunk::Bytes(bytes) => run.extend_from_slice(&bytes),
                other => {
                    flush(&mut run, most, &mut cut);
                    cut.push(other);
                }
            }
        }
        flush(&mut run, most, &mut cut);
        cut
    }
}

fn flush(run: &mut BytesMut, most: usize, cut: &mut Vec<RawChunk>) {
    let mut rest = std::mem::take(run).freeze();
    while !rest.is_empty() {
        cut.push(RawChunk::Bytes(rest.split_to(most.min(rest.len()))));
    }
}
