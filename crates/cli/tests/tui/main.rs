//! `hotcell` in a real terminal: tmux is the terminal, the model is a script, the sandbox is real.
//!
//! `HOTCELL_BIN` names the program to test; without it, the one that was built with the tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod endings;
#[path = "../it/place.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod place;
#[path = "../it/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod scene;
mod screen;
mod talking;
mod bad_starts;
mod flood;
mod hostile;
mod long;
mod looks;
mod processes;
mod quiet;
mod restoring;
mod sizes;
mod stuck;
mod asking;
mod commands;
mod heard;
mod interrupting;
mod jobs;
mod opening;
mod resuming;
mod sample_tasks;
mod undoing;
mod writing;
