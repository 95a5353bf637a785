//! The life of jobs, with real sandboxes and scripted models, without HTTP.
#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod ends;
mod following;
mod house;
mod outages;
mod queue;
mod recovery;
#[path = "../../tests/it/scene/models.rs"]
mod script;
mod talking;
