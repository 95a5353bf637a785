//! The output of a zip: counts, hashes, and never returns an error.
//!
//! `ZipWriter` retries after an error when it is dropped. So the first error is stored here and
//! later writes are discarded; the packer checks [`HashingSink::has_failed`].

use std::io::{self, Write};

use sha2::{Digest, Sha256};

#[derive(Debug)]
pub(super) struct HashingSink<W> {
    inner: W,
    hash: Sha256,
    written: u64,
    error: Option<io::Error>,
}

impl<W: Write> HashingSink<W> {
    pub(super) fn new(inner: W) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            written: 0,
            error: None,
        }
    }

    pub(super) fn written(&self) -> u64 {
        self.written
    }

    pub(super) fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// The number of bytes and their SHA-256 in hexadecimal, if all were written.
    pub(super) fn finish(mut self) -> io::Result<(u64, String)> {
        if let Some(error) = self.error {
            return Err(error);
        }
        self.inner.flush()?;
        Ok((self.written, hex::encode(self.hash.finalize())))
    }
}

impl<W: Write> Write for HashingSink<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.error.is_none() {
            match self.inner.write_all(bytes) {
                Ok(()) => self.hash.update(bytes),
                Err(error) => self.error = Some(error),
            }
        }
        self.written += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
