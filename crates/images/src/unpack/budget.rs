//! How much may be unpacked, and the readers that hold streams to it.
//!
//! Entry types: [`Limits`] for people, [`Budget`] and [`unpacked`] inside.

use std::cell::Cell;
use std::io::{self, BufRead, BufReader, Read};
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use super::flaw::Flaw;

/// What is too much. All of it counts over a whole image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes, unpacked.
    pub bytes: u64,
    /// Files, folders and links.
    pub entries: u64,
    /// How many times its packed size a layer may unpack to. Real ones stay below ten.
    pub ratio: u64,
    /// Layers of one image.
    pub layers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bytes: 32 << 30,
            entries: 2_000_000,
            ratio: 200,
            layers: 512,
        }
    }
}

/// Below this many unpacked bytes, nobody asks how tightly they were packed.
const HARMLESS: u64 = 16 << 20;

/// What is left of the limits.
#[derive(Debug, Clone)]
pub(crate) struct Budget {
    limits: Limits,
    bytes: Rc<Cell<u64>>,
    entries: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            bytes: Rc::new(Cell::new(limits.bytes)),
            entries: limits.entries,
        }
    }

    pub(crate) fn charge_entry(&mut self) -> Result<(), Flaw> {
        self.entries = self
            .entries
            .checked_sub(1)
            .ok_or(Flaw::TooMany(self.limits.entries))?;
        Ok(())
    }

    /// For a file of this size, of which only the content is in the stream: bytes are charged as
    /// they are read, holes here.
    pub(crate) fn charge_size(&self, size: u64, content: u64) -> Result<(), Flaw> {
        let holes = size.saturating_sub(content);
        let left = self.bytes.get().checked_sub(holes);
        match left {
            Some(left) if content <= left => self.bytes.set(left),
            _ => return Err(Flaw::TooLarge(self.limits.bytes)),
        }
        Ok(())
    }
}

/// What a packed stream holds, whether it is gzip, zstd or neither, charged as it is read.
pub(crate) fn unpacked<'a, R: Read + 'a>(
    packed: R,
    budget: &Budget,
) -> io::Result<Box<dyn Read + 'a>> {
    let taken = Rc::new(Cell::new(0));
    let counted = Counted {
        inner: packed,
        taken: Rc::clone(&taken),
    };
    let mut packed = BufReader::with_capacity(1 << 16, counted);
    let unpacked: Box<dyn Read + 'a> = match packing(packed.fill_buf()?) {
        Packing::Gzip => Box::new(MultiGzDecoder::new(packed)),
        Packing::Zstd => Box::new(Frames::new(packed)),
        Packing::None => Box::new(packed),
    };
    Ok(Box::new(Metered {
        inner: unpacked,
        taken,
        given: 0,
        limits: budget.limits,
        bytes: Rc::clone(&budget.bytes),
    }))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Zstd,
}

/// Told by the first bytes.
pub(crate) fn packing(start: &[u8]) -> Packing {
    match start {
        [0x1f, 0x8b, ..] => Packing::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Packing::Zstd,
        _ => Packing::None,
    }
}

/// Counts what is taken out of a stream.
struct Counted<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.taken.set(self.taken.get() + length as u64);
        Ok(length)
    }
}

/// zstd, one frame after the other to the end of the stream.
struct Frames<R: Read> {
    state: State<R>,
}

enum State<R: Read> {
    Between(R),
    Inside(Box<StreamingDecoder<R, ruzstd::decoding::FrameDecoder>>),
    Broken,
}

impl<R: BufRead> Frames<R> {
    fn new(packed: R) -> Self {
        let state = State::Between(packed);
        Self { state }
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(&mut self.state, State::Broken) {
                State::Broken => return Err(io::ErrorKind::InvalidData.into()),
                State::Between(mut packed) => {
                    if packed.fill_buf()?.is_empty() {
                        self.state = State::Between(packed);
                        return Ok(0);
                    }
                    let decoder = StreamingDecoder::new(packed)
                        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                    self.state = State::Inside(Box::new(decoder));
                }
                State::Inside(mut decoder) => {
                    let length = decoder.read(buffer)?;
                    self.state = match length {
                        0 => State::Between(decoder.into_inner()),
                        _ => State::Inside(decoder),
                    };
                    if length > 0 {
                        return Ok(length);
                    }
                }
            }
        }
    }
}

/// Holds an unpacked stream to the limits.
struct Metered<R> {
    inner: R,
    taken: Rc<Cell<u64>>,
    given: u64,
    limits: Limits,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for Metered<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)? as u64;
        self.given += length;
        let Limits { bytes, ratio, .. } = self.limits;
        match self.bytes.get().checked_sub(length) {
            Some(left) => self.bytes.set(left),
            None => return Err(Flaw::TooLarge(bytes).into_io()),
        }
        if self.given > HARMLESS && self.given / ratio > self.taken.get() {
            return Err(Flaw::Bomb(ratio).into_io());
        }
        Ok(length as usize)
    }
}
