//! Pictures of all screens, made by living through samples.

#![allow(clippy::unwrap_used)]

mod any;
mod scene;
mod screens;
mod styles;
