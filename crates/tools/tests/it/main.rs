//! Every tool, called as by a model, in real sandboxes, as root and as an ordinary user.
//!
//! Each module tests a feature. No test passes by skipping.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod arguments;
mod bash;
mod bounded;
mod edit_file;
mod fixture;
mod jobs;
mod list_files;
mod memory;
mod read_file;
mod search_files;
mod write_file;
