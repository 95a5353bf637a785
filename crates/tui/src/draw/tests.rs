//! Snapshots of all screens, made from sample events.

#![allow(clippy::unwrap_used)]

mod answering;
mod any;
mod scene;
mod screens;
mod styles;
