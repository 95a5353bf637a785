//! Parses requests and writes replies: consecutive little-endian fields.
//!
//! Trusts no length: a field that is missing in a message is `EINVAL`. Both ends run on the same
//! machine, which is little-endian.

use std::ffi::CStr;

use rustix::io::Errno;

use crate::abi::{FuseOperation, REPLY_HEADER_LEN, REQUEST_HEADER_LEN};

/// Longest file name of the common file systems.
const MAX_NAME_BYTES: usize = 255;

/// A message from the kernel inside.
#[derive(Debug)]
pub(crate) struct FuseRequest<'a> {
    pub(crate) operation: FuseOperation,
    /// Identifies the reply.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) fields: Fields<'a>,
}

impl<'a> FuseRequest<'a> {
    /// `message` is one complete message.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Errno> {
        let mut fields = Fields(message);
        fields.u32()?;
        let operation = FuseOperation::of(fields.u32()?);
        let unique = fields.u64()?;
        let node = fields.u64()?;
        let fields = Fields(message.get(REQUEST_HEADER_LEN..).ok_or(Errno::INVAL)?);
        Ok(Self {
            operation,
            unique,
            node,
            fields,
        })
    }
}

/// The unparsed part of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Errno> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*first)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Errno> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Errno> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn skip(&mut self, length: usize) -> Result<(), Errno> {
        self.0 = self.0.get(length..).ok_or(Errno::INVAL)?;
        Ok(())
    }

    /// Text up to its zero byte.
    pub(crate) fn text(&mut self) -> Result<&'a CStr, Errno> {
        let text = CStr::from_bytes_until_nul(self.0).map_err(|_| Errno::INVAL)?;
        self.skip(text.count_bytes() + 1)?;
        Ok(text)
    }

    /// The name of a folder entry. Rejects names that could refer to anything else.
    pub(crate) fn name(&mut self) -> Result<&'a CStr, Errno> {
        let name = self.text()?;
        match name.to_bytes() {
            b"" | b"." | b".." => Err(Errno::INVAL),
            bytes if bytes.contains(&b'/') => Err(Errno::INVAL),
            bytes if bytes.len() > MAX_NAME_BYTES => Err(Errno::NAMETOOLONG),
            _ => Ok(name),
        }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// A message to the kernel inside, under construction.
#[derive(Debug, Default)]
pub(crate) struct FuseReply {
    bytes: Vec<u8>,
    /// Offsets of the cache lifetimes.
    terms: Vec<usize>,
}

impl FuseReply {
    /// Starts a new message in the same buffer.
    pub(crate) fn begin(&mut self) {
        self.terms.clear();
        self.bytes.clear();
        self.bytes.resize(REPLY_HEADER_LEN, 0);
    }

    pub(crate) fn u16(&mut self, value: u16) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Writes a cache lifetime in seconds.
    pub(crate) fn term(&mut self, seconds: u64) {
        if seconds > 0 {
            self.terms.push(self.bytes.len());
        }
        self.u64(seconds);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Pads with zeros until the length after the header is a multiple of eight.
    pub(crate) fn align(&mut self) {
        let length = (self.bytes.len() - REPLY_HEADER_LEN).next_multiple_of(8);
        self.bytes.resize(REPLY_HEADER_LEN + length, 0);
    }

    /// Length after the header.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - REPLY_HEADER_LEN
    }

    /// Lets `fill` write into the next `length` bytes, and keeps as many as it returns.
    pub(crate) fn fill(
        &mut self,
        length: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let start = self.bytes.len();
        self.bytes.resize(start + length, 0);
        let filled = fill(&mut self.bytes[start..])?;
        self.bytes.truncate(start + filled.min(length));
        Ok(())
    }

    /// Sets all cache lifetimes to zero.
    pub(crate) fn clear_ttls(&mut self) {
        for at in self.terms.drain(..) {
            self.bytes[at..at + 8].fill(0);
        }
    }

    /// Completes the message as a reply to `unique`, or as an error.
    pub(crate) fn finish(&mut self, unique: u64, outcome: Result<(), Errno>) -> &[u8] {
        let error = match outcome {
            Ok(()) => 0,
            Err(error) => {
                self.begin();
                -error.raw_os_error()
            }
        };
        self.head(error, unique)
    }

    /// Completes the message as an unsolicited notification.
    pub(crate) fn finish_notice(&mut self, code: i32) -> &[u8] {
        self.head(code, 0)
    }

    fn head(&mut self, error: i32, unique: u64) -> &[u8] {
        let length = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&length.to_le_bytes());
        self.bytes[4..8].copy_from_slice(&error.to_le_bytes());
        self.bytes[8..16].copy_from_slice(&unique.to_le_bytes());
        &self.bytes
    }
}
