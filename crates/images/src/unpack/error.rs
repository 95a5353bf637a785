//! Why an untrusted stream is refused.
//!
//! Entry type: [`UnpackError`].

use std::io;

use thiserror::Error;

use crate::digest::Digest;

/// Why an untrusted stream or document was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum UnpackError {
    /// An entry has an invalid name.
    #[error("its name {0}")]
    Name(&'static str),
    /// A link has an invalid target.
    #[error("the link {0}")]
    Link(&'static str),
    /// Adds the name of the entry.
    #[error("the entry `{name}` is refused")]
    Entry {
        name: String,
        source: Box<UnpackError>,
    },
    /// Not a tar, or a broken one.
    #[error("it is not a whole tar: {0}")]
    Malformed(&'static str),
    /// A tar feature that is not supported.
    #[error("it {0}, which is not supported")]
    Unsupported(&'static str),
    /// More uncompressed bytes than allowed.
    #[error("it unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// More entries than allowed.
    #[error("it has more than {0} entries")]
    TooMany(u64),
    /// The compression ratio is far higher than that of real content.
    #[error("it unpacks to more than {0} times its size")]
    Bomb(u64),
    /// The content does not match its digest.
    #[error("its digest is {found} where {expected} is promised")]
    Digest { expected: Digest, found: Digest },
    /// The content does not have the stated size.
    #[error("it has {found} bytes where {expected} are promised")]
    Size { expected: u64, found: u64 },
    /// A read or a write on the host failed.
    #[error("reading or writing failed")]
    Io(#[source] io::Error),
}

impl UnpackError {
    /// Adds the entry's name, unless the flaw concerns the whole stream.
    pub(crate) fn of(self, name: &str) -> Self {
        match self {
            Self::Name(_) | Self::Link(_) | Self::Io(_) => Self::Entry {
                name: name.chars().take(200).collect(),
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// Wraps it as an I/O error, so that a reader can return it.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }
}

impl From<io::Error> for UnpackError {
    /// Unwraps a flaw that a reader returned as an I/O error.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(flaw) => flaw,
            Err(error) => Self::Io(error),
        }
    }
}

impl From<nix::Error> for UnpackError {
    fn from(error: nix::Error) -> Self {
        Self::Io(error.into())
    }
}
