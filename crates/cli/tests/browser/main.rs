//! The web UI end to end: `hotcell serve` with real sandboxes and a scripted model, and a real browser
//! driven by mouse and keyboard.
//!
//! Requires Debian's `chromium` and `chromedriver`, and what `scripts/setup` installs. Screenshots of every
//! page are left in `target/screenshots`.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]
#![allow(clippy::print_stderr, reason = "and say why")]

mod accessibility;
mod browser;
#[path = "../serve/client.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod client;
mod driver;
mod gallery;
mod history;
mod hostile;
mod internals;
mod keyboard;
mod keys;
mod missing;
#[path = "../serve/model.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod model;
mod options;
#[path = "../it/place.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod place;
#[path = "../serve/play.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod play;
mod reconnect;
mod sample_jobs;
#[path = "../serve/server.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod server;
mod staging;
mod talking;
mod task;
mod theme;
mod user_input;
