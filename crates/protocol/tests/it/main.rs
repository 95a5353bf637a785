//! The JSON form of events, which other programs rely on.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod schema;
