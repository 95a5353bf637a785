//! Progress reports of builds, imports and pulls. The receiver decides what to show.
//!
//! Entry type: [`ImageProgress`].

use crate::digest::Digest;

/// A step, or a line of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ImageProgress<'a> {
    /// Another process is making the same image.
    Waiting,
    /// Packages are fetched and installed, and commands run.
    Building { program: &'a str },
    /// A line of output of the builder program.
    Said(&'a str),
    /// A layer is being unpacked.
    Unpacking { number: usize, total: usize },
    /// A blob is being fetched: the bytes so far, and its size.
    Fetching {
        digest: &'a Digest,
        bytes: u64,
        size: u64,
    },
    /// The image was already in the store.
    Cached,
}
