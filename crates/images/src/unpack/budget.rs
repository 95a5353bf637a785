//! Limits for unpacking, and the readers that enforce them on streams.
//!
//! Entry types: [`UnpackLimits`] for callers of the crate, [`UnpackBudget`] and [`unpacked`] inside it.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::error::UnpackError;

/// Limits for a whole image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnpackLimits {
    /// Uncompressed bytes.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// The highest compression ratio of a layer. Real layers stay below ten.
    pub ratio: u64,
    /// Layers of one image.
    pub layers: usize,
}

impl Default for UnpackLimits {
    fn default() -> Self {
        Self {
            bytes: 32 << 30,
            entries: 2_000_000,
            ratio: 200,
            layers: 512,
        }
    }
}

/// The compression ratio is not checked for fewer uncompressed bytes.
const MIN_RATIO_CHECK_BYTES: u64 = 16 << 20;

/// What remains of the limits.
#[derive(Debug, Clone)]
pub(crate) struct UnpackBudget {
    limits: UnpackLimits,
    bytes: Rc<Cell<u64>>,
    entries: u64,
}

impl UnpackBudget {
    pub(crate) fn new(limits: UnpackLimits) -> Self {
        Self {
            limits,
            bytes: Rc::new(Cell::new(limits.bytes)),
            entries: limits.entries,
        }
    }

    pub(crate) fn charge_entry(&mut self) -> Result<(), UnpackError> {
        self.entries = self
            .entries
            .checked_sub(1)
            .ok_or(UnpackError::TooMany(self.limits.entries))?;
        Ok(())
    }

    /// Charges the holes of a sparse file of this size. Its content is charged when it is read.
    pub(crate) fn charge_holes(&self, size: u64, content: u64) -> Result<(), UnpackError> {
        let holes = size.saturating_sub(content);
        let left = self.bytes.get().checked_sub(holes);
        match left {
            Some(left) if content <= left => self.bytes.set(left),
            _ => return Err(UnpackError::TooLarge(self.limits.bytes)),
        }
        Ok(())
    }
}

/// Decompresses a stream (gzip, zstd or plain). The output is charged to the budget as it is read.
pub(crate) fn unpacked<'a, R: Read + 'a>(
    packed: R,
    budget: &UnpackBudget,
) -> io::Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let mut counted = CountingReader {
        inner: packed,
        taken: Rc::clone(&taken),
    };
    // One read may return fewer bytes than the magic has.
    let mut start = Vec::new();
    counted.by_ref().take(4).read_to_end(&mut start)?;
    let compression = packing(&start);
    let packed = BufReader::with_capacity(1 << 16, Cursor::new(start).chain(counted));
    let unpacked: Box<dyn Read + 'a> = match compression {
        Compression::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Compression::Zstd => Box::new(ZstdFrames::new(packed)),
        Compression::None => Box::new(packed),
    };
    Ok(Box::new(LimitedReader {
        inner: unpacked,
        taken,
        given: 0,
        limits: budget.limits,
        bytes: Rc::clone(&budget.bytes),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

/// Detected by magic bytes.
pub(crate) fn packing(start: &[u8]) -> Compression {
    match start {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        _ => Compression::None,
    }
}

/// Counts the bytes that are read from a stream.
struct CountingReader<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for CountingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + length as u64);
        Ok(length)
    }
}

/// Decodes all zstd frames up to the end of the stream.
struct ZstdFrames<R: Read> {
    state: FrameState<R>,
}

enum FrameState<R: Read> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Broken,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(packed: R) -> Self {
        let state = FrameState::Between(packed);
        Self { state }
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, FrameState::Broken) {
                FrameState::Broken => return Err(io::ErrorKind::InvalidData.into()),
                FrameState::Between(mut packed) => {
                    if packed.fill_buf()?.is_empty() {
                        self.state = FrameState::Between(packed);
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(packed)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    self.state = FrameState::Inside(Box::new(decoder));
                }
                FrameState::Inside(mut decoder) => {
                    let length = decoder.read(buffer)?;
                    self.state = match length {
                        0 => FrameState::Between(decoder.into_inner()),
                        _ => FrameState::Inside(decoder),
                    };
                    if length > 0 {
                        return Ok(length);
                    }
                }
            }
        }
    }
}

/// Enforces the limits on an uncompressed stream.
struct LimitedReader<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
    given: u64,
    limits: UnpackLimits,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)? as u64;
        self.given += length;
        let UnpackLimits { bytes, ratio, .. } = self.limits;
        match self.bytes.get().checked_sub(length) {
            Some(left) => self.bytes.set(left),
            None => return Err(UnpackError::TooLarge(bytes).into_io()),
        }
        if self.given > MIN_RATIO_CHECK_BYTES && self.given / ratio > self.taken.get() {
            return Err(UnpackError::Bomb(ratio).into_io());
        }
        Ok(length as usize)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::Write;

    use flate2::Compression as GzipLevel;
    use flate2::write::GzEncoder;

    use super::*;

    /// Returns one byte for each read.
    struct OneByteReader<'a>(&'a [u8]);

    impl Read for OneByteReader<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let length = buffer.len().min(1);
            self.0.read(&mut buffer[..length])
        }
    }

    #[test]
    fn compression_is_detected_however_short_the_reads_are() {
        let mut encoder = GzEncoder::new(Vec::new(), GzipLevel::fast());
        encoder.write_all(b"content").unwrap();
        let gzip = encoder.finish().unwrap();
        // A frame with one raw block.
        let zstd = b"\x28\xb5\x2f\xfd\x20\x07\x39\0\0content";
        for stream in [&gzip[..], zstd, b"content"] {
            let budget = UnpackBudget::new(UnpackLimits::default());
            let mut content = String::new();
            let mut reader = unpacked(OneByteReader(stream), &budget).unwrap();
            reader.read_to_string(&mut content).unwrap();
            assert_eq!(content, "content");
        }
    }
}
