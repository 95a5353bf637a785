//! The scripted model server, tested with a plain HTTP client.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod client;
mod disturbed;
mod rules;
mod shapes;
mod waiting;
