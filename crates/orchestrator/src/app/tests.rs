//! The life cycle of jobs, with real sandboxes and scripted models, without HTTP.
#![allow(clippy::unwrap_used)]

mod access;
mod admission;
mod ends;
mod following;
mod messages;
mod outages;
mod queue;
mod recovery;
#[path = "../../tests/it/scene/models.rs"]
pub(crate) mod script;
pub(crate) mod test_server;
