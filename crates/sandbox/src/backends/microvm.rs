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
//! - [`tsc`]: the tsc source of an emulated machine.

mod acceleration;
mod blueprint;
mod folder;
mod monitor;
pub(crate) mod pool;
mod qemu;
mod running;
mod snapshot;
mod tsc;

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use protocol::Backend;
use walls::plan::LandlockStatus;

use self::acceleration::Acceleration;
use self::blueprint::{Blueprint, MachineStart, STATE_FD};
use self::qemu::{Qemu, QemuStart, reopen};
use self::running::MicrovmSandbox;
use self::snapshot::MicrovmSnapshot;
use super::machine::assignment::assignment;
use super::machine::control::ControlError;
use super::machine::disk::disk;
use super::machine::initramfs::initramfs;
use super::machine::kernel::VmKernel;
use super::machine::size::MachineSize;
use super::machine::step;
use super::{StartedBackend, check_strict, native};
use crate::error::SandboxError;
use crate::limits::machine_enforcement;
use crate::spec::SandboxSpec;

/// Timeout of a restore. It takes a fraction of a second, but a busy host may take longer.
const RESTORE_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let limits = machine_enforcement(&spec.limits);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let blueprint = prepare_blueprint(spec).await?;
    let waiting = spec
        .pool
        .as_ref()
        .and_then(|pool| pool.take(spec, &blueprint));
    let arrived = match waiting {
        // A pooled machine may have died while it waited, so its failure is not an error.
        Some(qemu) => assign(spec, &blueprint, qemu).await.ok(),
        None => None,
    };
    let (mut qemu, landlock) = match arrived {
        Some(arrived) => arrived,
        None => {
            let qemu = begin(spec, &blueprint).await?;
            assign(spec, &blueprint, qemu).await?
        }
    };
    if let Some(wall) = spec.limits.wall
        && let Err(error) = qemu.limit_time(wall).await
    {
        return Err(machine_error(qemu, "limit the time of a machine", error).await);
    }
    let (walls, link, control, keep) = qemu.into_parts();
    let inside = native::describe(&spec.root, landlock);
    let mut started = StartedBackend::usual(
        Backend::Microvm,
        link,
        Box::new(MicrovmSandbox::new(walls, control, keep)),
        describe(&blueprint.acceleration, inside),
        limits,
    )
    .with_landlock(landlock);
    started.info.is_emulated = matches!(blueprint.acceleration, Acceleration::Emulated { .. });
    Ok(started)
}

/// Assigns the sandbox to a waiting machine, and waits until its walls are up.
async fn assign(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    mut qemu: Qemu,
) -> Result<(Qemu, Option<LandlockStatus>), SandboxError> {
    let told = assignment(spec, blueprint.size.processors)
        .map_err(|error| step(Backend::Microvm, "draw a seed", error))?;
    match tokio::time::timeout(RESTORE_TIMEOUT, qemu.control.arrive(&told)).await {
        Ok(Ok(landlock)) => Ok((qemu, landlock)),
        // The machine works, but the walls inside it cannot be set up.
        Ok(Err(ControlError::Failed(source))) => {
            qemu.take_down().await;
            Err(SandboxError::Walls {
                source,
                advice: None,
            })
        }
        Ok(Err(error)) => Err(machine_error(qemu, "wake a machine", error).await),
        Err(error) => Err(machine_error(qemu, "wake a machine", error).await),
    }
}

/// Finds everything that a machine for this spec needs, and makes what is missing.
async fn prepare_blueprint(spec: &SandboxSpec) -> Result<Blueprint, SandboxError> {
    let backend = Backend::Microvm;
    let machines = &spec.provisions.machines;
    let qemu = blueprint::find(&machines.qemu).ok_or_else(|| SandboxError::Unavailable {
        backend,
        reason: format!("`{}` is not installed", machines.qemu.display()),
        advice: Some("`apt install qemu-system-x86`".into()),
    })?;
    let kernel = VmKernel::find(machines, backend)?;
    let initramfs = initramfs(&spec.provisions.cache, &kernel, &[])
        .map_err(|error| step(backend, "make the first file system of machines", error))?;
    let disk = disk(spec, backend).await?;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    let mut blueprint = Blueprint {
        qemu,
        kernel,
        initramfs,
        disk,
        size: MachineSize::for_limits(&spec.limits, available),
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
    let snapshot = MicrovmSnapshot::get(spec, blueprint).await?;
    match restore(spec, blueprint, &snapshot).await {
        Ok(qemu) => Ok(qemu),
        Err(_) => {
            MicrovmSnapshot::forget(spec, blueprint);
            let snapshot = MicrovmSnapshot::get(spec, blueprint).await?;
            restore(spec, blueprint, &snapshot).await
        }
    }
}

async fn restore(
    spec: &SandboxSpec,
    blueprint: &Blueprint,
    snapshot: &MicrovmSnapshot,
) -> Result<Qemu, SandboxError> {
    let state = reopen(snapshot.state.as_fd())
        .map_err(|error| step(Backend::Microvm, "open a snapshot", error))?;
    let mut qemu = Qemu::start(&QemuStart {
        blueprint,
        beginning: MachineStart::Restore,
        memory: snapshot.memory.as_fd(),
        state: Some(state.as_fd()),
        spec,
    })
    .await?;
    match tokio::time::timeout(RESTORE_TIMEOUT, qemu.monitor.restore(STATE_FD)).await {
        Ok(Ok(())) => Ok(qemu),
        Ok(Err(error)) => Err(machine_error(qemu, "restore a machine", error).await),
        Err(error) => Err(machine_error(qemu, "restore a machine", error).await),
    }
}

/// The error of a failed machine, with QEMU's own message if there is one.
async fn machine_error(
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
