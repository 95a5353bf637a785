//! Pictures of all screens, made by living through samples.

#![allow(clippy::unwrap_used)]

mod answering;
mod any;
mod scene;
mod screens;
mod styles;
