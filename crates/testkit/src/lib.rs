//! What tests need in place of the world: a scripted model server that speaks as the providers do.
//!
//! [`ModelServer`] listens on the loopback, gives each request the next [`Answer`] of its
//! [`Replies`], and holds every request against the providers' rules; a broken rule fails the test
//! at the end. It runs on a thread of its own, so that it serves blocking tests, asynchronous ones
//! and programs under test alike, and a paused clock in a test does not stop it. Tests wait for
//! requests, and hold streams at a [`Gate`]; they never sleep.
//!
//! [`Events`] reads what an orchestrator streams.
//!
//! A dev-dependency only: it panics where a test is wrong, and no part of the product may use it.

mod answer;
mod body;
mod check;
mod counter;
mod event_stream;
mod framing;
mod gate;
mod plan;
mod record;
mod replies;
mod serve;
mod server;
mod settings;
mod wire;

pub use answer::{Answer, RawChunk};
pub use event_stream::{Events, Sent};
pub use framing::{Chunking, Framing, LineEnds};
pub use gate::Gate;
pub use record::Recorded;
pub use replies::Replies;
pub use server::ModelServer;
pub use settings::{Dialect, Settings};
