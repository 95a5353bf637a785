//! The microsandbox backend: with the real `msb`, as far as this machine supports it, and
//! completely with a stand-in.
//!
//! The first test that needs the real `msb` installs it from its Python package into cargo's folder
//! for tests; `HOTCELL_TEST_MSB` names another. The stand-in is a script that takes the same calls
//! and makes the mounts in a mount namespace instead of a machine: the guest, its link over the
//! streams of `msb exec`, and the root are real.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

#[path = "../../src/error_chain.rs"]
mod error_chain;
mod real;
mod scene;
mod stand_in;
