//! Tests of the whole server: real HTTP, a real store, real sandboxes, and scripted models. Each
//! module is a feature.

#![allow(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod http_chat;
mod http_documents;
mod http_events;
mod http_files;
mod http_guards;
mod http_idempotency;
mod http_isolation;
mod http_jobs;
mod http_keyless;
mod http_keys;
mod http_limits;
mod http_problems;
mod http_uploads;
mod http_webhooks;
mod scene;
