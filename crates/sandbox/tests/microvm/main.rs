//! What only virtual machines of QEMU's can be asked: snapshots, pools, and how they end. Everything
//! else is in the suite that is the same for all backends.
//!
//! Needs QEMU, a kernel and `mkfs.erofs`, which `scripts/setup` installs; the image is made of this
//! machine's own shell.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod ends;
mod missing;
mod pool;
mod scene;
mod snapshots;
