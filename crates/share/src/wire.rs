//! Requests as they come and replies as they go: little-endian fields, one after the other.
//!
//! Reads nothing that is not there and trusts no length: whatever a message lacks is `EINVAL`.
//! Both ends run on the same machine, whose numbers are little-endian.

use std::ffi::CStr;

use rustix::io::Errno;

use crate::abi::{Operation, REPLY_HEADER, REQUEST_HEADER};

/// A name is at most this long on every file system that is worth sharing.
const LONGEST_NAME: usize = 255;

/// One message of the kernel inside.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) operation: Operation,
    /// Which reply belongs to it.
    pub(crate) unique: u64,
    pub(crate) node: u64,
    pub(crate) fields: Fields<'a>,
}

impl<'a> Request<'a> {
    /// `message` is one whole message, as its own length says.
    pub(crate) fn parse(message: &'a [u8]) -> Result<Self, Errno> {
        let mut fields = Fields(message);
        fields.u32()?;
        let operation = Operation::of(fields.u32()?);
        let unique = fields.u64()?;
        let node = fields.u64()?;
        let fields = Fields(message.get(REQUEST_HEADER..).ok_or(Errno::INVAL)?);
        Ok(Self {
            operation,
            unique,
            node,
            fields,
        })
    }
}

/// What is left of a message.
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

    /// Text to its end.
    pub(crate) fn text(&mut self) -> Result<&'a CStr, Errno> {
        let text = CStr::from_bytes_until_nul(self.0).map_err(|_| Errno::INVAL)?;
        self.skip(text.count_bytes() + 1)?;
        Ok(text)
    }

    /// The name of one entry of a folder: it leads nowhere but there.
    pub(crate) fn name(&mut self) -> Result<&'a CStr, Errno> {
        let name = self.text()?;
        match name.to_bytes() {
            b"" | b"." | b".." => Err(Errno::INVAL),
            bytes if bytes.contains(&b'/') => Err(Errno::INVAL),
            bytes if bytes.len() > LONGEST_NAME => Err(Errno::NAMETOOLONG),
            _ => Ok(name),
        }
    }

    pub(crate) fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// One message to the kernel inside, being written.
#[derive(Debug, Default)]
pub(crate) struct Reply {
    bytes: Vec<u8>,
    /// Where it says for how long something may be believed.
    terms: Vec<usize>,
}

impl Reply {
    /// Begins anew, in the same memory.
    pub(crate) fn begin(&mut self) {
        self.terms.clear();
        self.bytes.clear();
        self.bytes.resize(REPLY_HEADER, 0);
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

    /// Seconds for which something may be believed.
    pub(crate) fn term(&mut self, seconds: u64) {
        if seconds > 0 {
            self.terms.push(self.bytes.len());
        }
        self.u64(seconds);
    }

    pub(crate) fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Zeros until what was written since the header is a multiple of eight.
    pub(crate) fn align(&mut self) {
        let length = (self.bytes.len() - REPLY_HEADER).next_multiple_of(8);
        self.bytes.resize(REPLY_HEADER + length, 0);
    }

    /// What was written since the header.
    pub(crate) fn length(&self) -> usize {
        self.bytes.len() - REPLY_HEADER
    }

    /// Lets `fill` write into the next `length` bytes; as many stay as it says.
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

    /// Takes back every promise.
    pub(crate) fn promise_nothing(&mut self) {
        for at in self.terms.drain(..) {
            self.bytes[at..at + 8].fill(0);
        }
    }

    /// The whole message: an answer to `unique`, or the error instead.
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

    /// The whole message: something that nobody has asked for.
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
