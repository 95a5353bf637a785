//! The loop in a real terminal: the example `echo` behind a pseudo terminal, with these tests as the
//! person and as the terminal. `cargo test -p tui` builds it, a test alone may not.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod answers;
mod endings;
mod pty;
mod rest;
mod talking;
