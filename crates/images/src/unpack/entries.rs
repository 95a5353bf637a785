//! Reads a tar, header by header. Never trusts a length before it is checked against a limit. Touches no
//! files: names and links are passed on unchecked.
//!
//! Entry type: [`TarReader`].

use std::io::{self, Read};

use tar::{EntryType, GnuExtSparseHeader, Header};

use super::error::UnpackError;
use super::pax::{self, PaxHeader};

const TAR_BLOCK_BYTES: usize = 512;

/// The largest long name or extended header that is read.
const MAX_EXTENSION_BYTES: u64 = 1 << 20;

/// The maximum number of pieces of a sparse file.
const MAX_SPARSE_PIECES: usize = 1 << 16;

const INVALID_SIZE: UnpackError = UnpackError::Malformed("a header has an invalid size");

/// An entry of a tar.
#[derive(Debug)]
pub(crate) struct TarEntry {
    pub(crate) name: Vec<u8>,
    /// The target, if it is a link.
    pub(crate) link: Vec<u8>,
    pub(crate) mode: u32,
    pub(crate) mtime: i64,
    pub(crate) kind: TarEntryKind,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum TarEntryKind {
    File {
        /// Including holes.
        real_size: u64,
        /// Offset and length of the data of a sparse file.
        pieces: Option<Vec<(u64, u64)>>,
    },
    Folder,
    Symlink,
    HardLink,
    /// A device or a FIFO.
    Special,
}

/// Reads the entries of a stream in order.
pub(crate) struct TarReader<R> {
    stream: R,
    /// Unread bytes of the current entry.
    content: u64,
    /// Zero bytes after the content.
    padding: u64,
    /// The position of the next byte in the stream.
    offset: u64,
    is_over: bool,
}

impl<R: Read> TarReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream,
            content: 0,
            padding: 0,
            offset: 0,
            is_over: false,
        }
    }

    /// Where the content of the current entry begins, if none of it has been read.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The unread bytes of the current entry.
    pub(crate) fn unread(&self) -> u64 {
        self.content
    }

    /// A reader of the current entry's content.
    pub(crate) fn content(&mut self) -> EntryContent<'_, R> {
        EntryContent(self)
    }

    pub(crate) fn next_entry(&mut self) -> Result<Option<TarEntry>, UnpackError> {
        let (mut long_name, mut long_link, mut pax) = (None, None, None);
        loop {
            let Some(header) = self.next_header()? else {
                return match (long_name, long_link, pax) {
                    (None, None, None) => Ok(None),
                    _ => Err(UnpackError::Malformed("it ends after an extended header")),
                };
            };
            match header.entry_type() {
                EntryType::GNULongName => long_name = Some(trim_nuls(self.extension()?)),
                EntryType::GNULongLink => long_link = Some(trim_nuls(self.extension()?)),
                EntryType::XHeader => pax = Some(pax::parse(&self.extension()?)?),
                EntryType::XGlobalHeader => drop(self.extension()?),
                _ => {
                    let pax = pax.unwrap_or_default();
                    return self.entry(&header, long_name, long_link, pax).map(Some);
                }
            }
        }
    }

    fn entry(
        &mut self,
        header: &Header,
        long_name: Option<Vec<u8>>,
        long_link: Option<Vec<u8>>,
        pax: PaxHeader,
    ) -> Result<TarEntry, UnpackError> {
        if let Some(size) = pax.size {
            self.expect_content(size);
        }
        let name = pax.path.or(long_name);
        let name = name.unwrap_or_else(|| header.path_bytes().into_owned());
        let link = pax.link.or(long_link);
        let link = link
            .or_else(|| header.link_name_bytes().map(|link| link.into_owned()))
            .unwrap_or_default();
        let kind = self.kind(header, &name)?;
        let number = |_| UnpackError::Malformed("a header has an invalid number");
        Ok(TarEntry {
            mode: header.mode().map_err(number)?,
            mtime: match pax.mtime {
                Some(mtime) => mtime,
                None => header.mtime().map_err(number)?.try_into().unwrap_or(0),
            },
            name,
            link,
            kind,
        })
    }

    fn kind(&mut self, header: &Header, name: &[u8]) -> Result<TarEntryKind, UnpackError> {
        let file = |real_size| TarEntryKind::File {
            real_size,
            pieces: None,
        };
        Ok(match header.entry_type() {
            // Old archives store a folder as a file whose name ends with a slash.
            EntryType::Regular if name.ends_with(b"/") => TarEntryKind::Folder,
            EntryType::Regular | EntryType::Continuous => file(self.content),
            EntryType::GNUSparse => self.sparse(header)?,
            EntryType::Directory => TarEntryKind::Folder,
            EntryType::Symlink => TarEntryKind::Symlink,
            EntryType::Link => TarEntryKind::HardLink,
            EntryType::Char | EntryType::Block | EntryType::Fifo => TarEntryKind::Special,
            _ => return Err(UnpackError::Unsupported("has an entry of an unknown kind")),
        })
    }

    /// Reads the map of a sparse file, which is in its header and the blocks after it.
    fn sparse(&mut self, header: &Header) -> Result<TarEntryKind, UnpackError> {
        const BROKEN: UnpackError = UnpackError::Malformed("the map of a sparse file is broken");
        let gnu = header.as_gnu().ok_or(BROKEN)?;
        let real_size = gnu.real_size().map_err(|_| BROKEN)?;
        let mut pieces = Vec::new();
        let mut add = |piece: &tar::GnuSparseHeader| {
            if !piece.is_empty() {
                let offset = piece.offset().map_err(|_| BROKEN)?;
                pieces.push((offset, piece.length().map_err(|_| BROKEN)?));
            }
            if pieces.len() > MAX_SPARSE_PIECES {
                Err(UnpackError::Unsupported(
                    "has a sparse file with too many pieces",
                ))
            } else {
                Ok(())
            }
        };
        gnu.sparse.iter().try_for_each(&mut add)?;
        let mut is_extended = gnu.is_extended();
        while is_extended {
            let mut more = GnuExtSparseHeader::new();
            self.stream.read_exact(more.as_mut_bytes())?;
            self.offset += TAR_BLOCK_BYTES as u64;
            more.sparse.iter().try_for_each(&mut add)?;
            is_extended = more.is_extended();
        }
        let mut end = 0;
        let mut sum = 0u64;
        for (offset, length) in &pieces {
            if *offset < end {
                return Err(BROKEN);
            }
            end = offset.checked_add(*length).ok_or(BROKEN)?;
            sum = sum.checked_add(*length).ok_or(BROKEN)?;
        }
        if end > real_size || sum != self.content {
            return Err(BROKEN);
        }
        Ok(TarEntryKind::File {
            real_size,
            pieces: Some(pieces),
        })
    }

    /// The next header of any kind. `None` at the end of the archive.
    fn next_header(&mut self) -> Result<Option<Header>, UnpackError> {
        if self.is_over {
            return Ok(None);
        }
        let rest = self.unread_blocks()?;
        self.skip(rest)?;
        let mut header = Header::new_old();
        let block = header.as_mut_bytes();
        let mut filled = 0;
        while filled < TAR_BLOCK_BYTES {
            match self.stream.read(&mut block[filled..])? {
                0 if filled == 0 => {
                    self.is_over = true;
                    return Ok(None);
                }
                0 => return Err(UnpackError::Malformed("it is cut off in a header")),
                length => filled += length,
            }
        }
        self.offset += TAR_BLOCK_BYTES as u64;
        if block.iter().all(|byte| *byte == 0) {
            self.is_over = true;
            return Ok(None);
        }
        if header.cksum().ok() != Some(checksum(header.as_bytes())) {
            return Err(UnpackError::Malformed("the checksum of a header is wrong"));
        }
        let size = header.entry_size().map_err(|_| INVALID_SIZE)?;
        self.expect_content(match header.entry_type() {
            // Some programs write a size for these, but no content.
            EntryType::Symlink
            | EntryType::Link
            | EntryType::Directory
            | EntryType::Char
            | EntryType::Block
            | EntryType::Fifo => 0,
            _ => size,
        });
        Ok(Some(header))
    }

    fn expect_content(&mut self, size: u64) {
        self.content = size;
        self.padding = size.wrapping_neg() % TAR_BLOCK_BYTES as u64;
    }

    /// The unread bytes of the current entry with its padding.
    fn unread_blocks(&self) -> Result<u64, UnpackError> {
        let rest = self.content.checked_add(self.padding);
        rest.ok_or(INVALID_SIZE)
    }

    /// Reads the content of an extension header, which describes the entry after it.
    fn extension(&mut self) -> Result<Vec<u8>, UnpackError> {
        if self.content > MAX_EXTENSION_BYTES {
            return Err(UnpackError::Malformed(
                "a name or an extended header is too long",
            ));
        }
        let mut bytes = Vec::new();
        self.content().read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), UnpackError> {
        let skipped = io::copy(&mut (&mut self.stream).take(bytes), &mut io::sink())?;
        self.offset += skipped;
        (self.content, self.padding) = (0, 0);
        if skipped == bytes {
            Ok(())
        } else {
            Err(UnpackError::Malformed("it is cut off"))
        }
    }

    /// Reads the stream to its end.
    pub(crate) fn drain(&mut self) -> Result<(), UnpackError> {
        io::copy(&mut self.stream, &mut io::sink())?;
        Ok(())
    }
}

impl<R: Read + io::Seek> TarReader<R> {
    /// Seeks past the content of the current entry.
    pub(crate) fn skip_content(&mut self) -> Result<(), UnpackError> {
        let rest = self.unread_blocks()?;
        let jumped = i64::try_from(rest).map_err(|_| INVALID_SIZE)?;
        self.stream.seek_relative(jumped)?;
        self.offset += rest;
        (self.content, self.padding) = (0, 0);
        Ok(())
    }
}

/// Reads the content of one entry. Fails if the stream ends early.
pub(crate) struct EntryContent<'a, R>(&'a mut TarReader<R>);

impl<R: Read> Read for EntryContent<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let entries = &mut *self.0;
        if entries.content == 0 || buffer.is_empty() {
            return Ok(0);
        }
        let most = buffer
            .len()
            .min(usize::try_from(entries.content).unwrap_or(usize::MAX));
        let length = entries.stream.read(&mut buffer[..most])?;
        if length == 0 {
            return Err(UnpackError::Malformed("it is cut off").into_io());
        }
        entries.content -= length as u64;
        entries.offset += length as u64;
        Ok(length)
    }
}

/// The sum of all bytes, with the checksum field counted as spaces.
fn checksum(block: &[u8; TAR_BLOCK_BYTES]) -> u32 {
    let sum = |bytes: &[u8]| bytes.iter().map(|byte| u32::from(*byte)).sum::<u32>();
    sum(&block[..148]) + 8 * u32::from(b' ') + sum(&block[156..])
}

fn trim_nuls(mut name: Vec<u8>) -> Vec<u8> {
    while name.last() == Some(&0) {
        name.pop();
    }
    name
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn entry(kind: EntryType, content: &[u8]) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_mtime(0);
        header.set_cksum();
        let mut bytes = [&header.as_bytes()[..], content].concat();
        bytes.resize(bytes.len().next_multiple_of(TAR_BLOCK_BYTES), 0);
        bytes
    }

    #[test]
    fn a_size_whose_padding_overflows_is_refused() {
        let size = entry(EntryType::XHeader, b"29 size=18446744073709551615\n");
        let stream = [size, entry(EntryType::Directory, b"")].concat();
        let mut reader = TarReader::new(io::Cursor::new(&stream));
        assert_eq!(
            reader.next_entry().unwrap().unwrap().kind,
            TarEntryKind::Folder
        );
        for result in [reader.next_entry().map(drop), reader.skip_content()] {
            let error = result.unwrap_err().to_string();
            assert_eq!(error, "it is not a whole tar: a header has an invalid size");
        }
    }
}
