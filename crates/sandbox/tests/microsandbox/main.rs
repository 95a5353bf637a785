//! The microsandbox backend: with the real `msb`, as far as this machine lets it come, and with a
//! stand-in for it, whole.
//!
//! The real one is installed by the first test that needs it, from the Python package that carries
//! it, into cargo's folder for tests; `HOTCELL_TEST_MSB` names another. The stand-in is a script that
//! takes the same calls and puts the mounts that it is told of into a mount namespace instead of a
//! machine: the guest, its link over the streams of `msb exec`, and the root are real.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod real;
mod scene;
mod stand_in;
