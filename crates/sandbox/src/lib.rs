//! Sandboxes: one guest program behind walls, and a handle for sending it requests.
//!
//! A backend starts the walls and the guest and returns the link; everything else is the same for
//! all backends. This crate prints nothing and reads no environment variables: the caller passes
//! both in.
//! Entry points: [`Sandbox::start`] with a [`SandboxSpec`], and [`doctor`].

mod backend_config;
mod backends;
mod background_jobs;
mod batch_stream;
mod client;
mod connection_recorder;
mod disk_limit;
pub mod doctor;
mod error;
mod error_chain;
mod exec;
mod file_reader;
mod guest_program;
mod handle;
#[cfg(test)]
mod hostile_guest;
pub mod limits;
mod probe_cache;
mod recorder;
mod selection;
mod spec;
mod start_progress;

pub use backend_config::{BackendConfig, ContainerConfig, GvisorConfig, VmConfig};
pub use backends::MachinePool;
pub use batch_stream::BatchStream;
pub use client::PortConnection;
pub use error::SandboxError;
pub use exec::{
    CapturedOutput, CommandControl, CommandEvent, CommandInput, CommandResult, ExecCommand,
    RunningCommand,
};
pub use file_reader::{FileReader, MAX_READ_BYTES};
pub use guest_program::GUEST_PROGRAM;
pub use handle::{Sandbox, SandboxEnd};
pub use limits::{LimitEnforcement, LimitEnforcer, LimitKind, LimitTooSmall, SandboxLimits};
pub use probe_cache::ProbeResult;
pub use selection::BackendChoice;
pub use spec::{Network, RootSpec, SandboxSpec, WORKSPACE_PATH};

pub use link::request;
pub use protocol::{Backend, Strength};

/// Prepares the next start of a native sandbox ahead of time. A program can run this on its own
/// thread while it is still reading its settings.
pub fn prewarm() {
    backends::native::prewarm();
}
