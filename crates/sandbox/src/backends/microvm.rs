//! QEMU `microvm` virtual machines, from the packages of a distribution.
//!
//! ```text
//! host ── sockets: link, control, monitor
//!   └─ native walls around QEMU: its libraries, kernel, disk and the workspace are all it sees
//!        └─ process 1 (role `machine`): starts QEMU, serves the workspace to the machine
//!             └─ QEMU: no network, no display; one read-only disk, three serial ports
//!                  └─ kernel, and init (role `init`)
//!                       └─ the native walls again; behind them waits    ◀ the snapshot is taken here
//!                            └─ the guest
//! ```
//!
//! Each kind of machine boots once; every sandbox starts from a copy of its memory that is shared
//! copy-on-write. The walls inside are those of the native backend, so a command finds the same
//! sandbox on both; the machine is one more wall around it.
//!
//! - [`blueprint`]: the components of a kind of machine.
//! - [`acceleration`]: whether KVM works, by trying it.
//! - [`snapshot`]: the copies that machines start from.
//! - [`pool`]: machines that wait.
//! - [`folder`]: workspaces that are not assigned yet.
//! - [`qemu`], [`monitor`]: one QEMU process.
//! - [`clock`]: the clock source of an emulated machine.

mod acceleration;
mod blueprint;
mod clock;
mod folder;
mod monitor;
pub(crate) mod pool;
mod qemu;
mod snapshot;
mod standing;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use walls::plan::Landlocked;

use self::acceleration::Acceleration;
use self::blueprint::{Beginning, Blueprint, STATE};
use self::qemu::{Qemu, Start, reopen};
use self::snapshot::Snapshot;
use self::standing::Standing;
use super::machine::arrival::arrival;
use super::machine::control::ControlError;
use super::machine::disk::disk;
use super::machine::initramfs::initramfs;
use super::machine::kernel::Kernel;
use super::machine::size::Size;
use super::machine::step;
use super::{Raised, check_strict, native};
use crate::error::SandboxError;
use crate::limits::enforce_in_machine;
use crate::spec::{Backend, SandboxSpec};

/// Timeout of a restore. It takes a fraction of a second, but a busy host may take longer.
const RESTORE: Duration = Duration::from_secs(60);

pub(crate) async fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let limits = enforce_in_machine(&spec.limits);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let blueprint = draw(spec).await?;
    let waiting = spec
        .pool
        .as_ref()
        .and_then(|pool| pool.take(spec, &blueprint));
    let arrived = match waiting {
        // A pooled machine may have died while it waited, so its failure is not an error.
        Some(qemu) => arrive(spec, &blueprint, qemu).await.ok(),
        None => None,
    };
    let (mut qemu, landlock) = match arrived {
        Some(arrived) => arrived,
        None => {
            let qemu = begin(spec, &blueprint).await?;
            arrive(spec, &blueprint, qemu).await?
        }
    };
    if let Some(wall) = spec.limits.wall
        && let Err(error) = qemu.limit_time(wall).await
    {
        return Err(gone(qemu, "limit the time of a machine", error).await);
    }
    let (walls, link, control, keep) = qemu.into_parts();
    let inside = native::describe(&spec.root, landlock);
    Ok(Raised::usual(
        Backend::Microvm,
        link,
        Box::new(Standing::new(walls, control, keep)),
        describe(&blueprint.acceleration, inside),
        limits,
    ))
}

/// Assigns the sandbox to a waiting machine, and waits until its walls are up.
async fn arrive(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    mut qemu: Qemu,
) -> Result<(Qemu, Option<Landlocked>), SandboxError> {
    let told = arrival(spec, blueprint.size.processors)
        .map_err(|error| step(Backend::Microvm, "draw a seed", error))?;
    match tokio::time::timeout(RESTORE, qemu.control.arrive(&told)).await {
        Ok(Ok(landlock)) => Ok((qemu, landlock)),
        // The machine works, but the walls inside it cannot be set up.
        Ok(Err(ControlError::Failed(source))) => {
            qemu.take_down().await;
            Err(SandboxError::Walls {
                source,
                advice: None,
            })
        }
        Ok(Err(error)) => Err(gone(qemu, "wake a machine", error).await),
        Err(error) => Err(gone(qemu, "wake a machine", error).await),
    }
}

/// Finds everything that a machine for this spec needs, and makes what is missing.
async fn draw(spec: &SandboxSpec) -> Result<Blueprint, SandboxError> {
    let backend = Backend::Microvm;
    let machines = &spec.provisions.machines;
    let qemu = blueprint::find(&machines.qemu).ok_or_else(|| SandboxError::Unavailable {
        backend,
        reason: format!("`{}` is not installed", machines.qemu.display()),
        advice: Some("`apt install qemu-system-x86`".into()),
    })?;
    let kernel = Kernel::find(machines, backend)?;
    let initramfs = initramfs(&spec.provisions.cache, &kernel, &[])
        .map_err(|error| step(backend, "make the first file system of machines", error))?;
    let disk = disk(spec, backend).await?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let mut blueprint = Blueprint {
        qemu,
        kernel,
        initramfs,
        disk,
        size: Size::for_limits(&spec.limits, available),
        acceleration: Acceleration::Kvm,
    };
    blueprint.acceleration = acceleration::acceleration(spec, &blueprint).await;
    if let Acceleration::Emulated { .. } = blueprint.acceleration {
        blueprint.size = blueprint.size.emulated(available);
    }
    Ok(blueprint)
}

/// A machine that waits for its assignment. If no machine can start from the snapshot, the snapshot
/// is made anew once.
async fn begin(spec: &SandboxSpec, blueprint: &Blueprint) -> Result<Qemu, SandboxError> {
    let snapshot = Snapshot::get(spec, blueprint).await?;
    match restore(spec, blueprint, &snapshot).await {
        Ok(qemu) => Ok(qemu),
        Err(_) => {
            Snapshot::forget(spec, blueprint);
            let snapshot = Snapshot::get(spec, blueprint).await?;
            restore(spec, blueprint, &snapshot).await
        }
    }
}

async fn restore(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    snapshot: &Snapshot,
) -> Result<Qemu, SandboxError> {
    let state = reopen(snapshot.state.as_fd())
        .map_err(|error| step(Backend::Microvm, "open a snapshot", error))?;
    let mut qemu = Qemu::start(&Start {
        blueprint,
        beginning: Beginning::Restore,
        memory: snapshot.memory.as_fd(),
        state: Some(state.as_fd()),
        spec,
    })
    .await?;
    match tokio::time::timeout(RESTORE, qemu.monitor.restore(STATE)).await {
        Ok(Ok(())) => Ok(qemu),
        Ok(Err(error)) => Err(gone(qemu, "restore a machine", error).await),
        Err(error) => Err(gone(qemu, "restore a machine", error).await),
    }
}

/// The error of a failed machine, with QEMU's own message if there is one.
async fn gone(
    mut qemu: Qemu,
    doing: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> SandboxError {
    let said = qemu.last_words().await;
    qemu.take_down().await;
    match said {
        Some(said) => step(Backend::Microvm, doing, io::Error::other(said)),
        None => step(Backend::Microvm, doing, error),
    }
}

fn describe(acceleration: &Acceleration, inside: Vec<String>) -> Vec<String> {
    let first = match acceleration {
        Acceleration::Kvm => "virtual machine (QEMU microvm), KVM".to_owned(),
        Acceleration::Emulated { reason } => {
            format!("virtual machine (QEMU microvm), emulated (TCG): {reason}")
        }
    };
    let mut walls = vec![
        first,
        "no network device".to_owned(),
        "QEMU behind native walls of its own".to_owned(),
    ];
    walls.extend(inside.into_iter().map(|wall| format!("inside: {wall}")));
    walls
}
