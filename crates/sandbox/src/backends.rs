//! The backends: each starts its walls and the guest behind them, and returns the link.
//!
//! | module | walls | how the guest gets its link |
//! |---|---|---|
//! | [`native`] | namespaces, made by our own supervisor | a socket, inherited |
//! | [`gvisor`] | `runsc` | a socket, inherited through `runsc` |
//! | [`podman`], [`docker`] | a container engine's | connects to a socket of ours |
//! | [`microvm`] | QEMU, itself behind native walls | a virtio-serial port |
//! | [`firecracker`] | Firecracker and its jailer | vsock |
//! | [`microsandbox`] | `msb` | standard input and output |
//! | [`none`] | none | a socket, inherited |
//!
//! [`root_entries`] lists the content of `/` for all of them, [`bundle`] turns that into folders and
//! mounts for external engines, [`confined_guest`] confines a guest behind their walls, [`container`] is
//! shared by Podman and Docker, [`machine`] by all virtual machines, [`child`] waits for processes.
//! [`auto`] selects a backend.

mod auto;
pub(crate) mod bundle;
pub(crate) mod child;
pub(crate) mod confined_guest;
pub(crate) mod container;
pub(crate) mod docker;
pub(crate) mod firecracker;
pub(crate) mod gvisor;
pub(crate) mod machine;
pub(crate) mod microsandbox;
pub(crate) mod microvm;
pub(crate) mod native;
pub(crate) mod none;
pub(crate) mod podman;
pub(crate) mod root_entries;
pub(crate) mod wall_descriptions;

pub(crate) use self::auto::probe_unknown;

use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use protocol::{Backend, SandboxInfo};
use tokio::net::UnixStream;
use walls::plan::LandlockStatus;

pub use self::microvm::pool::MachinePool;
use self::root_entries::default_env;
use crate::error::SandboxError;
use crate::limits::LimitEnforcement;
use crate::selection;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};
use crate::start_progress;

/// The result of starting a backend.
#[derive(Debug)]
pub(crate) struct StartedBackend {
    pub(crate) link: UnixStream,
    pub(crate) walls: Box<dyn RunningWalls>,
    /// Its limits and network are added when the start is complete.
    pub(crate) info: SandboxInfo,
    pub(crate) limits: Vec<LimitEnforcement>,
    /// What the confined guest reported; absent where its kernel has no Landlock.
    pub(crate) landlock: Option<LandlockStatus>,
    /// Path of the workspace inside.
    pub(crate) workdir: PathBuf,
    /// The default environment of commands.
    pub(crate) env: Vec<(String, String)>,
}

impl StartedBackend {
    /// For a backend with the usual root inside that was requested by name.
    pub(crate) fn usual(
        backend: Backend,
        link: UnixStream,
        standing: Box<dyn RunningWalls>,
        walls: Vec<String>,
        limits: Vec<LimitEnforcement>,
    ) -> Self {
        Self {
            link,
            walls: standing,
            info: SandboxInfo::requested(backend, walls),
            limits,
            landlock: None,
            workdir: WORKSPACE_PATH.into(),
            env: default_env(),
        }
    }

    pub(crate) fn with_landlock(mut self, landlock: Option<LandlockStatus>) -> Self {
        self.landlock = landlock;
        self
    }
}

/// A boxed future, as trait objects need it.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Running walls. Dropping them takes them down too, without waiting.
pub(crate) trait RunningWalls: Debug + Send {
    /// Takes everything down and waits until it is gone. Returns how many processes the kernel
    /// killed for lack of memory, or 0 if they are not counted.
    fn take_down(&mut self) -> BoxFuture<'_, u64>;

    /// The number of such kills so far.
    fn memory_kills(&mut self) -> BoxFuture<'_, u64>;
}

/// Starts the backend that the spec requests, or the one that `auto` selects; never one that is
/// weaker than required. Returns the spec as it was carried out.
pub(crate) async fn start_backend(
    spec: SandboxSpec,
) -> Result<(StartedBackend, SandboxSpec), SandboxError> {
    selection::check(spec.backend, spec.require)?;
    match spec.backend {
        Backend::Auto => auto::start_backend(spec).await,
        _ => start_named_backend(spec).await,
    }
}

async fn start_named_backend(
    mut spec: SandboxSpec,
) -> Result<(StartedBackend, SandboxSpec), SandboxError> {
    if spec.backend.needs_image() && spec.root == RootSpec::Host {
        let image = spec.provisions.default_image.clone();
        spec.root = RootSpec::Image(image.ok_or_else(|| lacks_image(spec.backend))?);
    }
    start_progress::step(start_step(spec.backend));
    let raised = match spec.backend {
        Backend::Native => native::start_backend(&spec).await,
        Backend::Podman => podman::start_backend(&spec).await,
        Backend::Docker => docker::start_backend(&spec).await,
        Backend::Gvisor => gvisor::start_backend(&spec).await,
        Backend::Microvm => microvm::start_backend(&spec).await,
        Backend::Firecracker => firecracker::start_backend(&spec).await,
        Backend::Microsandbox => microsandbox::start_backend(&spec).await,
        Backend::None => none::start_backend(&spec),
        Backend::Auto => unreachable!("`auto` was resolved to a backend"),
    }?;
    Ok((raised, spec))
}

/// The step of a start, as the end of "cannot …".
fn start_step(backend: Backend) -> &'static str {
    match backend {
        Backend::Native => "put up the native walls",
        Backend::Podman => "start a Podman container",
        Backend::Docker => "start a Docker container",
        Backend::Gvisor => "start gVisor",
        Backend::Microvm => "start a QEMU machine",
        Backend::Firecracker => "start a Firecracker machine",
        Backend::Microsandbox => "start a microsandbox machine",
        Backend::None => "start the guest",
        Backend::Auto => "choose a backend",
    }
}

/// A virtual machine cannot show the host's programs, so it needs an image.
pub(crate) fn lacks_image(backend: Backend) -> SandboxError {
    SandboxError::Unavailable {
        backend,
        reason: "a virtual machine needs an image".into(),
        advice: Some("`hotcell image build base`, or name one with `--image` or `--rootfs`".into()),
    }
}

/// Fails for the first limit that is not fully enforced, before anything is started.
pub(crate) fn check_strict(limits: &[LimitEnforcement]) -> Result<(), SandboxError> {
    match limits.iter().find(|enforcement| !enforcement.is_full()) {
        None => Ok(()),
        Some(weak) => Err(SandboxError::Unenforced {
            limit: weak.limit,
            reason: weak
                .caveat
                .clone()
                .unwrap_or_else(|| "there is no mechanism".into()),
        }),
    }
}
