//! Tests for QEMU virtual machines only: snapshots, pools, and how they end. Everything else is in
//! the suite for all backends.
//!
//! Needs QEMU, a kernel and `mkfs.erofs`, which `scripts/setup` installs; the image is made from
//! this machine's own shell.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod ends;
mod missing;
mod pool;
#[path = "../under_test/run_test.rs"]
mod run_test;
mod scene;
mod snapshots;
