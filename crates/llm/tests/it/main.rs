//! Both clients over real HTTP, against the scripted model server.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod ask;
mod broken;
mod chunks;
mod conversation;
mod cut;
mod dialects;
mod failures;
mod limits;
mod replies;
mod retries;
mod secrets;
