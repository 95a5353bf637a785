//! The proxy with real servers, all of them on 127.0.0.1.
//!
//! Test names resolve to the loopback, which no name opens by itself, so each world also has a rule
//! for the address of its server.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod asking;
mod connect;
mod http;
mod pinned;
mod tls;
mod world;
