//! Files of a sandbox, read in pieces as they come or, if they are not too long, at once.

use std::path::Path;

use bytes::Bytes;
use link::request::{Answer, Metadata, Raw, ReadFile, Refusal, RefusalKind, Request};
use link::{Ended, Item, Link, Stream, StreamError};

use crate::client::{ANSWER_TIMEOUT, DISK_TIMEOUT};
use crate::error::SandboxError;
use crate::handle::Sandbox;
use crate::limits::bytes;

/// What [`Sandbox::read_file`] holds in memory at most.
pub const LONGEST_READ: u64 = 64 << 20;

/// A file that is being read. Whoever needs no more drops it.
#[derive(Debug)]
pub struct Reading {
    pub metadata: Metadata,
    stream: Stream,
    link: Link,
    /// Bytes that may still come.
    left: u64,
}

impl Reading {
    /// The next piece, of no more than a frame; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SandboxError> {
        let piece = self.stream.receive();
        let task = "go on with a file";
        match self.link.expect_within(DISK_TIMEOUT, task, piece).await?? {
            // A guest can say anything.
            Some(Item::Data(piece)) => match self.left.checked_sub(piece.len() as u64) {
                Some(left) => {
                    self.left = left;
                    Ok(Some(piece))
                }
                None => {
                    let excess = Ended::Excess("the bytes that were asked for".into());
                    Err(self.link.fail(excess).into())
                }
            },
            Some(_) => Err(StreamError::Unexpected.into()),
            None => Ok(None),
        }
    }
}

impl Sandbox {
    /// Opens a file, or a part of it, to be read in pieces. However long it is, only what is under
    /// way is held in memory.
    pub async fn open_file(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
    ) -> Result<Reading, SandboxError> {
        let request = ReadFile {
            path: Raw::from(path.as_ref()),
            offset,
            length,
        };
        let mut stream = self.request(&Request::Read(request)).await?;
        let answer = stream.expect::<Answer<Metadata>>();
        let task = "open a file";
        let metadata = self
            .link
            .expect_within(ANSWER_TIMEOUT, task, answer)
            .await???;
        let left = length.unwrap_or(u64::MAX);
        Ok(Reading {
            metadata,
            stream,
            link: self.link.clone(),
            left,
        })
    }

    /// Reads a file, or a part of it, into memory. More than [`LONGEST_READ`] is refused.
    pub async fn read_file(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(Metadata, Vec<u8>), SandboxError> {
        let path = path.as_ref();
        let mut reading = self.open_file(path, offset, length).await?;
        let there = reading.metadata.size.saturating_sub(offset);
        if there.min(reading.left) > LONGEST_READ {
            return Err(too_long(path));
        }
        let mut content = Vec::new();
        while let Some(piece) = reading.next().await? {
            // It may have grown meanwhile.
            if (content.len() + piece.len()) as u64 > LONGEST_READ {
                return Err(too_long(path));
            }
            content.extend_from_slice(&piece);
        }
        Ok((reading.metadata, content))
    }
}

fn too_long(path: &Path) -> SandboxError {
    let (path, most) = (path.display(), bytes(LONGEST_READ));
    SandboxError::Refused(Refusal {
        kind: RefusalKind::Limit,
        message: format!("cannot read `{path}` at once: it is longer than {most}"),
    })
}
