//! Reads files of a sandbox, in pieces or, up to a limit, at once.

use std::path::Path;

use bytes::Bytes;
use link::request::{
    ByteString, GuestRequest, GuestResult, PathMetadata, ReadFileRequest, Refusal, RefusalKind,
};
use link::{Link, LinkEnd, LinkItem, Stream, StreamError};

use crate::client::{ANSWER_TIMEOUT, DISK_TIMEOUT};
use crate::error::SandboxError;
use crate::handle::Sandbox;
use crate::limits::bytes;

/// Maximum size for [`Sandbox::read_file`].
pub const MAX_READ_BYTES: u64 = 64 << 20;

/// A file that is being read. Dropping it stops the transfer.
#[derive(Debug)]
pub struct FileReader {
    pub metadata: PathMetadata,
    stream: Stream,
    link: Link,
    /// Bytes that may still arrive.
    left: u64,
}

impl FileReader {
    /// The next piece, at most one frame long; `None` at the end.
    pub async fn next(&mut self) -> Result<Option<Bytes>, SandboxError> {
        let piece = self.stream.receive();
        let task = "continue a file";
        match self.link.expect_within(DISK_TIMEOUT, task, piece).await?? {
            // The guest is not trusted.
            Some(LinkItem::Data(piece)) => match self.left.checked_sub(piece.len() as u64) {
                Some(left) => {
                    self.left = left;
                    Ok(Some(piece))
                }
                None => {
                    let excess = LinkEnd::Excess("the bytes that were asked for".into());
                    Err(self.link.fail(excess).into())
                }
            },
            Some(_) => Err(StreamError::Unexpected.into()),
            None => Ok(None),
        }
    }
}

impl Sandbox {
    /// Opens a file, or a part of it, for reading in pieces. Memory use is independent of its
    /// length.
    pub async fn open_file(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
    ) -> Result<FileReader, SandboxError> {
        let request = ReadFileRequest {
            path: ByteString::from(path.as_ref()),
            offset,
            length,
        };
        let mut stream = self.request(&GuestRequest::Read(request)).await?;
        let answer = stream.expect::<GuestResult<PathMetadata>>();
        let task = "open a file";
        let metadata = self
            .link
            .expect_within(ANSWER_TIMEOUT, task, answer)
            .await???;
        let left = length.unwrap_or(u64::MAX);
        Ok(FileReader {
            metadata,
            stream,
            link: self.link.clone(),
            left,
        })
    }

    /// Reads a file, or a part of it, into memory. Refuses more than [`MAX_READ_BYTES`].
    pub async fn read_file(
        &self,
        path: impl AsRef<Path>,
        offset: u64,
        length: Option<u64>,
    ) -> Result<(PathMetadata, Vec<u8>), SandboxError> {
        let path = path.as_ref();
        let mut reading = self.open_file(path, offset, length).await?;
        let there = reading.metadata.size.saturating_sub(offset);
        if there.min(reading.left) > MAX_READ_BYTES {
            return Err(too_large_error(path));
        }
        let mut content = Vec::new();
        while let Some(piece) = reading.next().await? {
            // The file may have grown meanwhile.
            if (content.len() + piece.len()) as u64 > MAX_READ_BYTES {
                return Err(too_large_error(path));
            }
            content.extend_from_slice(&piece);
        }
        Ok((reading.metadata, content))
    }
}

fn too_large_error(path: &Path) -> SandboxError {
    let (path, most) = (path.display(), bytes(MAX_READ_BYTES));
    SandboxError::Refused(Refusal {
        kind: RefusalKind::Limit,
        message: format!("cannot read `{path}` at once: it is longer than {most}"),
    })
}
