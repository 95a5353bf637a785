//! What a maker of images tells while it works. Who listens decides what to show.
//!
//! Entry type: [`Progress`].

use crate::digest::Digest;

/// One step or one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Progress<'a> {
    /// Another process is making the same image.
    Waiting,
    /// Packages are fetched and installed, and commands run.
    Building { program: &'a str },
    /// A line of a program that takes part.
    Said(&'a str),
    /// A layer is being unpacked.
    Unpacking { number: usize, total: usize },
    /// A blob is being fetched: how much of it is there.
    Fetching {
        digest: &'a Digest,
        bytes: u64,
        size: u64,
    },
    /// Nothing had to be done: the image was there.
    Cached,
}
