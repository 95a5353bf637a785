//! A folder of the host inside a virtual machine: the FUSE protocol over a byte stream.
//!
//! ```text
//! inside the machine:  programs ── kernel ── /dev/fuse ── [`mount`] ── port
//! outside:             the folder ── [`serve`] ── socket ── port
//! ```
//!
//! The messages of the protocol carry their length in both directions, so a stream needs no frames
//! around them. Nothing is kept back: a write is in the folder on the host before the program that
//! made it goes on, so a machine that dies leaves the folder as its programs saw it.
//!
//! The two ends do not trust each other alike. What is inside believes the server. The server
//! believes nothing: it opens only what it finds by single names below the folder, never through
//! a symlink, and every length, number and name of a message is checked before it is used.
//!
//! What differs from the same folder without a machine around it:
//! - Locks are among the programs inside; the host does not see them.
//! - Extended attributes and `fallocate` do not exist (`ENOTSUP`).
//! - inotify inside tells of changes that were made inside, and not of those of the host.
//! - A device cannot be made, and no file gets a setuid or setgid bit.
//!
//! The kernel inside believes for a few seconds what it was told of names and attributes, and is told
//! when the host changes them: within milliseconds, and at once for whoever calls [`settle`] first.
//!
//! - [`serve`]: the end outside.
//! - [`mount()`]: the end inside.

mod abi;
mod channel;
mod mount;
mod pump;
mod server;
mod wire;

pub use mount::{Mount, MountError, is_shared, mount, settle};
pub use server::serve;
