//! The event loop in a real terminal: the example `echo` runs in a pseudo terminal, and the tests
//! act as user and terminal. `cargo test -p tui` builds the example; running a single test may not.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod answers;
mod exit;
mod idle;
mod input;
mod pty;
