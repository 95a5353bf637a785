//! A folder of the host inside a virtual machine: the FUSE protocol over a byte stream.
//!
//! ```text
//! inside the machine:  programs ── kernel ── /dev/fuse ── [`mount`] ── port
//! outside:             the folder ── [`serve`] ── socket ── port
//! ```
//!
//! FUSE messages carry their length in both directions, so the stream needs no framing. There is no
//! write-back cache: a write is in the folder on the host before the call of the program returns, so
//! a machine that dies leaves the folder as its programs saw it.
//!
//! Trust is one-sided. The end inside the machine trusts the server. The server does not trust the
//! machine: it opens files only by single names below the folder and never through a symlink, and it
//! checks every length, number and name of a message before use.
//!
//! Differences from the same folder without a machine:
//! - File locks work between programs inside; the host does not see them.
//! - Extended attributes and `fallocate` are not supported (`ENOTSUP`).
//! - inotify inside reports changes made inside, but not those of the host.
//! - Devices cannot be created, and no file gets a setuid or setgid bit.
//!
//! The kernel inside caches names and attributes for a few seconds. It gets an invalidation when the
//! host changes them: within milliseconds, or before [`settle`] returns.
//!
//! - [`serve`]: the end on the host.
//! - [`mount()`]: the end inside the machine.

mod abi;
mod channel;
mod mount;
mod pump;
mod server;
mod wire;

pub use mount::{MountError, MountedShare, is_fuse_mount, mount, settle};
pub use server::serve;
