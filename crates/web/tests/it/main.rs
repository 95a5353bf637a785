//! Tests of the web UI: its files, and its modules in a browser.

#![allow(clippy::unwrap_used)]

mod browser;
mod files;
mod page_server;
