//! The JSON form of events, as other programs rely on it.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod schema;
