//! SHA-256 digests, by which content is named, and a stream adapter that computes them.
//!
//! Entry types: [`Digest`], [`HashingStream`].

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A SHA-256 digest, written as `sha256:` and 64 hex digits.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(String);

const SHA256_PREFIX: &str = "sha256:";

impl Digest {
    /// The digest of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_hash(Sha256::new_with_prefix(bytes))
    }

    /// The 64 hex digits, for file names.
    pub fn hex(&self) -> &str {
        &self.0[SHA256_PREFIX.len()..]
    }

    /// The first 12 hex digits, for lists.
    pub fn short(&self) -> &str {
        &self.hex()[..12]
    }

    pub(crate) fn from_hash(hash: Sha256) -> Self {
        Self(format!("{SHA256_PREFIX}{}", hex::encode(hash.finalize())))
    }

    /// From hex digits without the prefix.
    pub(crate) fn from_hex(hex: &str) -> Option<Self> {
        format!("{SHA256_PREFIX}{hex}").parse().ok()
    }
}

/// The text is not a SHA-256 digest.
#[derive(Debug, Clone, thiserror::Error)]
#[error("`{0}` is not a digest of the form `sha256:` and 64 hex digits")]
pub struct ParseDigestError(String);

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        match text.strip_prefix(SHA256_PREFIX) {
            Some(hex) if hex.len() == 64 && hex.bytes().all(is_digit) => Ok(Self(text.to_owned())),
            _ => Err(ParseDigestError(text.chars().take(100).collect())),
        }
    }
}

impl TryFrom<String> for Digest {
    type Error = ParseDigestError;

    fn try_from(text: String) -> Result<Self, ParseDigestError> {
        text.parse()
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Wraps a stream and counts and hashes the bytes that pass through it.
pub(crate) struct HashingStream<S> {
    inner: S,
    hash: Sha256,
    bytes: u64,
}

impl<S> HashingStream<S> {
    pub(crate) fn new(inner: S) -> Self {
        Self {
            inner,
            hash: Sha256::new(),
            bytes: 0,
        }
    }

    /// The digest and the number of all bytes so far.
    pub(crate) fn finish(self) -> (Digest, u64) {
        (Digest::from_hash(self.hash), self.bytes)
    }

    fn saw(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
    }
}

impl<R: Read> Read for HashingStream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        self.saw(&buffer[..length]);
        Ok(length)
    }
}

impl<W: Write> Write for HashingStream<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let length = self.inner.write(bytes)?;
        self.saw(&bytes[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
