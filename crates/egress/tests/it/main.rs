//! Tests of the proxy with real servers on 127.0.0.1.
//!
//! Test names resolve to the loopback, which a rule for a name does not allow. So each test also has a
//! rule for the address of its server.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod asking;
mod connect;
mod fixture;
mod http;
mod pinned;
mod tls;
