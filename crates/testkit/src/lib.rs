//! Test doubles: a scripted model server that implements the providers' APIs.
//!
//! [`ModelServer`] listens on the loopback interface, gives each request the next [`Answer`] of its
//! [`Replies`], and checks every request against the providers' rules. A broken rule fails the test
//! at the end. The server runs on its own thread, so that it works for blocking tests, asynchronous
//! tests and external programs, and a paused clock does not stop it. Tests wait for requests and
//! hold streams at a [`Gate`]; they never sleep.
//!
//! [`Events`] reads the event stream of an orchestrator.
//!
//! A dev-dependency only: it panics on errors in a test, and the product must not use it.

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
