//! The agent as a whole: real sandboxes, a real store, real model clients, and a scripted model server
//! that checks every request against the providers' rules.
//!
//! Each module is a feature. All tests pass as root and as an ordinary user.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod approvals;
mod background;
mod budgets;
mod calls;
mod checkpoints;
mod compaction;
mod crashes;
mod failures;
mod harness;
mod hosts;
mod interrupted_tools;
mod interruption;
mod live;
mod long;
mod loss;
mod models;
mod opening;
mod outputs;
mod processes;
mod queries;
mod receivers;
mod redo;
mod repetition;
mod replays;
mod stops;
mod stubs;
mod switching;
mod system_prompt;
mod tree;
mod undo;
mod undo_isolation;
mod undo_random;
