//! Images as other crates and people use them: built, imported, fetched, exported, as disks; and
//! everything that a hostile archive or registry may try.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod archives;
mod builds;
mod disks;
mod hostile;
mod keeping;
mod packing;
mod recipes;
mod registries;
