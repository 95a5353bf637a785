//! Tests with real sandboxes for everything that the handle offers, as root and as an ordinary
//! user.
//!
//! Each module is a feature. Where root and an ordinary user differ on purpose, the test asserts
//! both; no test passes by skipping.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod abandoned;
mod audit_log;
mod disk_limit;
mod exec;
mod fidelity;
mod files;
mod host_changes;
mod identity;
mod interrupt;
mod lifecycle;
mod limits;
mod native_only;
mod network;
mod ports;
mod programs;
mod rootfs;
mod search;
mod shell;
mod survey;
mod tails;
mod terminal;
#[path = "../under_test/root.rs"]
mod under_test;
mod watch;
mod without_walls;
mod world;
