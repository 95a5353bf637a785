//! Firecracker virtual machines, for many of them on one host.
//!
//! ```text
//! host ── room: the API's socket, the vsock device's sockets
//!   ├─ the jailer (the host's root) or native walls (other users)
//!   │    └─ Firecracker: no network, no console; one read-only disk, one vsock device
//!   │         └─ kernel, and init: waits                  ◀ the snapshot is taken here
//!   │              └─ the native walls again, and the guest behind them
//!   └─ native walls around the process that serves the workspace to the machine
//! ```
//!
//! Each kind of machine boots once and is stored as a snapshot. Every later machine starts from the
//! snapshot, with memory that is shared copy-on-write. A snapshot refers to its files and sockets by
//! path, so the paths are the same in every jail and behind all walls. A snapshot that Firecracker
//! refuses is discarded, and the machine boots from scratch. Entry point: [`start_backend`].

mod api;
mod boot;
mod jail;
mod lz4;
mod native_walls;
mod shared_dir;
mod snapshot;
mod vmlinux;
mod vmm;
mod vsock;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use protocol::Backend;
use tokio::net::UnixStream;
use walls::plan::LandlockStatus;

use self::boot::FirecrackerMachine;
use self::native_walls::FileServer;
use self::vmm::Vmm;
use super::machine::assignment::assignment;
use super::machine::control::MachineControl;
use super::machine::disk::disk;
use super::machine::initramfs::initramfs;
use super::machine::kernel::VmKernel;
use super::machine::size::MachineSize;
use super::machine::{kvm, stamp, step};
use super::{BoxFuture, StartedBackend, check_strict, native};
use crate::error::SandboxError;
use crate::limits::machine_enforcement;
use crate::spec::SandboxSpec;

/// Shown by `doctor`.
pub(crate) const UNTESTED_NOTE: &str = "written against the API of Firecracker 1.x: its requests, jail, \
     snapshots and vsock sockets are tested against stand-ins, a machine of it has not run on real KVM";

/// The folder that Firecracker shares with the host, in its own root.
const SHARED_DIR: &str = "/room";

/// Paths of the parts of a machine inside that root.
const KERNEL_PATH: &str = "/vmlinux";
const INITRAMFS_PATH: &str = "/initramfs";
const DISK_PATH: &str = "/disk";

/// Kernel modules that a machine needs in addition to the usual ones.
const EXTRA_MODULES: &[&str] = &["vmw_vsock_virtio_transport"];

/// A waiting machine answers at once, but a busy host may take longer.
const WAKE_TIMEOUT: Duration = Duration::from_secs(10);

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let limits = machine_enforcement(&spec.limits);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let programs = FirecrackerPrograms::find(spec)?;
    kvm::check(&spec.provisions.machines.kvm, Backend::Firecracker)?;
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| boot::remove_stale(&spec.provisions.cache));
    let machine = prepare_machine(spec, programs).await?;
    let (vmm, ports) = boot::start_machine(spec, &machine).await?;
    let mut standing = FirecrackerSandbox {
        vmm,
        control: ports.control,
        files: None,
    };
    match assign(spec, &machine, &mut standing, ports.files).await {
        Ok(landlock) => Ok(StartedBackend::usual(
            Backend::Firecracker,
            ports.link,
            Box::new(standing),
            describe(&machine.programs, native::describe(&spec.root, landlock)),
            limits,
        )
        .with_landlock(landlock)),
        Err(error) => {
            super::RunningWalls::take_down(&mut standing).await;
            Err(error)
        }
    }
}

/// Tells a waiting machine its task and connects the workspace to its port. Returns
/// whether Landlock is among the walls inside it.
async fn assign(
    spec: &SandboxSpec,
    machine: &FirecrackerMachine,
    standing: &mut FirecrackerSandbox,
    files: UnixStream,
) -> Result<Option<LandlockStatus>, SandboxError> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |error| step(Backend::Firecracker, doing, error)
    };
    standing.files = Some(native_walls::start_file_server(spec, files).await?);
    let told = assignment(spec, machine.size.processors).map_err(failed("draw a seed"))?;
    let stands = tokio::time::timeout(WAKE_TIMEOUT, standing.control.arrive(&told)).await;
    match stands {
        Ok(Ok(landlock)) => Ok(landlock),
        Ok(Err(error)) => Err(step(Backend::Firecracker, "wake a machine", error)),
        Err(error) => Err(step(Backend::Firecracker, "wake a machine", error)),
    }
}

/// The programs of this backend.
#[derive(Debug)]
struct FirecrackerPrograms {
    firecracker: PathBuf,
    /// Only used by the host's root.
    jailer: Option<PathBuf>,
    /// The version line that Firecracker prints.
    version: String,
}

impl FirecrackerPrograms {
    fn find(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let machines = &spec.provisions.machines;
        let firecracker = find_installed(&machines.firecracker)?;
        let jailer = if nix::unistd::geteuid().is_root() {
            Some(find_installed(&machines.jailer)?)
        } else {
            None
        };
        let asked = Command::new(&firecracker)
            .arg("--version")
            .env_clear()
            .stdin(Stdio::null())
            .output()
            .map_err(|error| step(Backend::Firecracker, "ask for its release", error))?;
        let said = String::from_utf8_lossy(&asked.stdout);
        let first = said.lines().next().unwrap_or_default().trim();
        Ok(Self {
            version: if first.is_empty() {
                "Firecracker".to_owned()
            } else {
                first.chars().take(100).collect()
            },
            firecracker,
            jailer,
        })
    }
}

fn find_installed(program: &Path) -> Result<PathBuf, SandboxError> {
    jail::find(program).ok_or_else(|| SandboxError::Unavailable {
        backend: Backend::Firecracker,
        reason: format!("`{}` is not installed", program.display()),
        advice: Some(
            "a release of Firecracker has `firecracker` and `jailer`: put both in `/usr/local/bin`"
                .into(),
        ),
    })
}

/// Finds everything that a machine for this spec needs, and makes what is missing.
async fn prepare_machine(
    spec: &SandboxSpec,
    programs: FirecrackerPrograms,
) -> Result<FirecrackerMachine, SandboxError> {
    let backend = Backend::Firecracker;
    let cache = spec.provisions.cache.clone();
    let kernel = VmKernel::find(&spec.provisions.machines, backend)?;
    let disk = disk(spec, backend).await?;
    let made = tokio::task::spawn_blocking(move || {
        let initramfs = initramfs(&cache, &kernel, EXTRA_MODULES)
            .map_err(|error| step(backend, "make the first file system of machines", error))?;
        let vmlinux = vmlinux::vmlinux(&cache, &kernel.image).map_err(|error| {
            let doing = format!("unpack kernel `{}`", kernel.image.display());
            step(backend, doing, error)
        })?;
        Ok::<_, SandboxError>((initramfs, vmlinux))
    });
    let (initramfs, vmlinux) = made
        .await
        .map_err(|error| step(backend, "prepare a machine", error))??;
    let available = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(FirecrackerMachine {
        disk_stamp: stamp(&disk),
        size: MachineSize::for_limits(&spec.limits, available),
        programs,
        vmlinux,
        initramfs,
        disk,
    })
}

fn describe(programs: &FirecrackerPrograms, inside: Vec<String>) -> Vec<String> {
    let around = match programs.jailer {
        Some(_) => "Firecracker in a jail of its own",
        None => "Firecracker behind native walls of its own",
    };
    let mut walls = vec![
        format!("virtual machine ({}), KVM", programs.version),
        "no network device".to_owned(),
        around.to_owned(),
    ];
    walls.extend(inside.into_iter().map(|wall| format!("inside: {wall}")));
    walls
}

/// A running machine. Dropping it ends it without waiting.
#[derive(Debug)]
struct FirecrackerSandbox {
    vmm: Vmm,
    control: MachineControl,
    files: Option<FileServer>,
}

impl super::RunningWalls for FirecrackerSandbox {
    /// First ends the guest inside, so that written data is flushed; then the machine, even without
    /// an answer.
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let kills = self.control.end().await;
            self.vmm.end().await;
            if let Some(files) = &mut self.files {
                super::RunningWalls::take_down(&mut files.standing).await;
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async { self.control.kills().await })
    }
}
