//! `hotcell serve` as a program: started, used over HTTP, starved, killed and restarted.
//!
//! `HOTCELL_BIN` names the program to test; the default is the one built with the tests.
//! `HOTCELL_TEST_FRACTION` divides the numbers of the load tests: 5 means a fifth. `HOTCELL_TEST_SEED` is the
//! seed of random moments; the default is random and printed.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![allow(clippy::print_stderr, reason = "and say why")]

mod access;
mod any_walls;
mod backup;
mod chaos;
mod client;
mod clock;
mod descriptors;
mod disk;
mod ends;
mod fairness;
mod lifecycle;
mod load;
mod model;
mod on_record;
mod outages;
#[path = "../it/place.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod place;
mod play;
mod processes;
mod readers;
mod sandboxes;
mod secrets;
mod server;
mod store;
#[path = "../it/walls_under_test.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod walls_under_test;
mod webhooks;
