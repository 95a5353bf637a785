//! Sandboxes: one guest program behind walls, and a handle for sending it requests.
//!
//! A backend starts the walls and the guest and returns the link; everything else is the same for
//! all backends. This crate prints nothing and reads no environment variables: the caller passes
//! both in.
//! Entry points: [`Sandbox::start`] with a [`SandboxSpec`], and [`doctor`].

mod backends;
mod background;
mod batches;
mod choosing;
mod client;
mod connections;
mod disk_limit;
pub mod doctor;
mod error;
mod exec;
mod guest_program;
mod handle;
#[cfg(test)]
mod hostile_guest;
pub mod limits;
mod proofs;
mod provisions;
mod reading;
mod recorder;
mod spec;
mod starting;

pub use backends::{Description, Pool};
pub use batches::Batches;
pub use choosing::Choice;
pub use client::Port;
pub use error::SandboxError;
pub use exec::{Captured, Command, Input, Output, Remote, Running, Verdict};
pub use guest_program::GUEST;
pub use handle::{Ending, Sandbox};
pub use limits::{Enforcement, Enforcer, LimitKind, LimitTooSmall, Limits};
pub use proofs::Proof;
pub use provisions::{Containers, Gvisor, Machines, Provisions};
pub use reading::{LONGEST_READ, Reading};
pub use spec::{Backend, Network, RootSpec, SandboxSpec, Strength, WORKSPACE};

pub use link::request;

/// Prepares the next start of a native sandbox ahead of time. A program can run this on its own
/// thread while it is still reading its settings.
pub fn prepare() {
    backends::native::prepare();
}
