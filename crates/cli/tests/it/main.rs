//! The `hotcell` program as people use it: typed at, piped into, interrupted, killed.
//!
//! `HOTCELL_BIN` names the program to test; without it, the one that was built with the tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod audit_verify;
mod bad_input;
mod choice_of_walls;
mod doctor;
mod exec;
mod forbidden;
mod killed;
mod limits;
mod pages;
mod place;
mod signals;
mod terminal;
