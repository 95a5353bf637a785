//! Test doubles: a scripted model server that implements the providers' APIs.
//!
//! [`ModelServer`] listens on the loopback interface, gives each request the next [`ScriptedAnswer`] of its
//! [`Replies`], and checks every request against the providers' rules. A broken rule fails the test
//! at the end. The server runs on its own thread, so that it works for blocking tests, asynchronous
//! tests and external programs, and a paused clock does not stop it. Tests wait for requests and
//! hold streams at a [`StreamGate`]; they never sleep.
//!
//! [`EventStream`] reads the event stream of an orchestrator. [`run_with_timeout`] runs a test.
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
mod replies;
mod request_log;
mod run_test;
mod serve;
mod server;
mod settings;
mod wire;

pub use answer::{RawChunk, ScriptedAnswer};
pub use event_stream::{EventStream, StreamedEvent};
pub use framing::{Chunking, Framing, LineEnding};
pub use gate::StreamGate;
pub use replies::Replies;
pub use request_log::RecordedRequest;
pub use run_test::run_with_timeout;
pub use server::ModelServer;
pub use settings::{Dialect, ModelServerSettings};
