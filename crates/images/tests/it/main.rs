//! Tests of the crate's public interface: images that are built, imported, pulled, exported and made into
//! disks, and attacks by hostile archives and registries.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod archives;
mod builds;
mod disks;
mod fixtures;
mod hostile;
mod recipes;
mod registries;
mod retention;
