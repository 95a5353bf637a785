//! `hotcell` in a real terminal: tmux is the terminal, the model is a script, the sandbox is real.
//!
//! `HOTCELL_BIN` names the program to test; the default is the one built with the tests.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod asking;
mod bad_starts;
mod browsing;
mod colours;
mod commands;
mod endings;
mod flood;
#[path = "../it/hosted.rs"]
mod hosted;
mod hostile;
mod interrupting;
mod jobs;
mod long;
mod opening;
#[path = "../it/place.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod place;
mod processes;
#[path = "../it/programs.rs"]
mod programs;
mod prompts;
mod quiet;
mod restoring;
mod resuming;
mod sample_tasks;
#[path = "../it/scene.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod scene;
mod screen;
mod sizes;
mod stuck;
mod talking;
mod undoing;
mod writing;
