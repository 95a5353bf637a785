//! Snapshots of all screens, made from sample events.

#![allow(clippy::unwrap_used)]

mod answers;
mod property;
mod screens;
mod styles;
mod test_screen;
