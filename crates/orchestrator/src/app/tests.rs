//! The life cycle of jobs, with real sandboxes and scripted models, without HTTP.
#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod ends;
mod following;
pub(crate) mod house;
mod outages;
mod queue;
mod recovery;
#[path = "../../tests/it/scene/models.rs"]
pub(crate) mod script;
mod talking;
