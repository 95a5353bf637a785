//! What is wrong with a stream from elsewhere.
//!
//! Entry type: [`Flaw`].

use std::io;

use thiserror::Error;

use crate::digest::Digest;

/// Why something from elsewhere was refused.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Flaw {
    /// The name of an entry.
    #[error("its name {0}")]
    Name(&'static str),
    /// What a link points at.
    #[error("the link {0}")]
    Link(&'static str),
    /// An entry, by its name.
    #[error("the entry `{name}` is refused")]
    Entry { name: String, source: Box<Flaw> },
    /// Not a tar, or a broken one.
    #[error("it is not a whole tar: {0}")]
    Malformed(&'static str),
    /// A form of tar that is not understood.
    #[error("it {0}, which is not supported")]
    Unsupported(&'static str),
    /// More bytes than allowed, unpacked.
    #[error("it unpacks to more than {0} bytes")]
    TooLarge(u64),
    /// More entries than allowed.
    #[error("it has more than {0} entries")]
    TooMany(u64),
    /// Packed far more tightly than any real content.
    #[error("it unpacks to more than {0} times its size")]
    Bomb(u64),
    /// The content is another one than was promised.
    #[error("its digest is {found} where {expected} is promised")]
    Digest { expected: Digest, found: Digest },
    /// The size is another one than was promised.
    #[error("it has {found} bytes where {expected} are promised")]
    Size { expected: u64, found: u64 },
    /// The host could not read or write.
    #[error("reading or writing failed")]
    Io(#[source] io::Error),
}

impl Flaw {
    /// With the entry that it is about, unless it is about the whole.
    pub(crate) fn of(self, name: &str) -> Self {
        match self {
            Self::Name(_) | Self::Link(_) | Self::Io(_) => Self::Entry {
                name: name.chars().take(200).collect(),
                source: Box::new(self),
            },
            other => other,
        }
    }

    /// For passing through a reader.
    pub(crate) fn into_io(self) -> io::Error {
        io::Error::other(self)
    }
}

impl From<io::Error> for Flaw {
    /// A flaw that a reader below has found comes out as itself.
    fn from(error: io::Error) -> Self {
        match error.downcast::<Self>() {
            Ok(flaw) => flaw,
            Err(error) => Self::Io(error),
        }
    }
}

impl From<nix::Error> for Flaw {
    fn from(error: nix::Error) -> Self {
        Self::Io(error.into())
    }
}
