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
//! refuses is discarded, and the machine boots from scratch. Entry point: [`raise`].

mod api;
mod boot;
mod jail;
mod lz4;
mod room;
mod snapshot;
mod vmlinux;
mod vmm;
mod vsock;
mod walls;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::time::Duration;

use tokio::net::UnixStream;

use self::boot::Machine;
use self::vmm::Vmm;
use self::walls::FileServer;
use super::machine::arrival::arrival;
use super::machine::control::Control;
use super::machine::disk::disk;
use super::machine::initramfs::initramfs;
use super::machine::kernel::Kernel;
use super::machine::size::Size;
use super::machine::{kvm, stamp, step};
use super::{Later, Raised, check_strict, native};
use crate::error::SandboxError;
use crate::limits::enforce_in_machine;
use crate::spec::{Backend, SandboxSpec};

/// Shown by `doctor`.
pub(crate) const UNPROVEN: &str = "written against the API of Firecracker 1.x: its requests, jail, \
     snapshots and vsock sockets are tested against stand-ins, a machine of it has not run on real KVM";

/// The folder that Firecracker shares with the host, in its own root.
const ROOM: &str = "/room";

/// Paths of the parts of a machine inside that root.
const KERNEL: &str = "/vmlinux";
const INITRAMFS: &str = "/initramfs";
const DISK: &str = "/disk";

/// Kernel modules that a machine needs in addition to the usual ones.
const MODULES: &[&str] = &["vmw_vsock_virtio_transport"];

/// A waiting machine answers at once, but a busy host may take longer.
const WAKE: Duration = Duration::from_secs(10);

pub(crate) async fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let limits = enforce_in_machine(&spec.limits);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let programs = Programs::find(spec)?;
    kvm::check(&spec.provisions.machines.kvm, Backend::Firecracker)?;
    static SWEPT: Once = Once::new();
    SWEPT.call_once(|| boot::sweep(&spec.provisions.cache));
    let machine = draw(spec, programs).await?;
    let (vmm, ports) = boot::begin(spec, &machine).await?;
    let mut standing = Standing {
        vmm,
        control: ports.control,
        files: None,
    };
    match wake(spec, &machine, &mut standing, ports.files).await {
        Ok(inside) => Ok(Raised::usual(
            Backend::Firecracker,
            ports.link,
            Box::new(standing),
            describe(&machine.programs, inside),
            limits,
        )),
        Err(error) => {
            super::Standing::take_down(&mut standing).await;
            Err(error)
        }
    }
}

/// Tells a waiting machine its task and connects the workspace to its port. Returns the walls
/// inside it.
async fn wake(
    spec: &SandboxSpec,
    machine: &Machine,
    standing: &mut Standing,
    files: UnixStream,
) -> Result<Vec<String>, SandboxError> {
    let failed = |doing: &str| {
        let doing = doing.to_owned();
        move |error| step(Backend::Firecracker, doing, error)
    };
    standing.files = Some(walls::around_files(spec, files).await?);
    let told = arrival(spec, machine.size.processors).map_err(failed("draw a seed"))?;
    let stands = tokio::time::timeout(WAKE, standing.control.arrive(&told)).await;
    match stands {
        Ok(Ok(landlock)) => Ok(native::describe(&spec.root, landlock)),
        Ok(Err(error)) => Err(step(Backend::Firecracker, "wake a machine", error)),
        Err(error) => Err(step(Backend::Firecracker, "wake a machine", error)),
    }
}

/// The programs of this backend.
#[derive(Debug)]
struct Programs {
    firecracker: PathBuf,
    /// Only used by the host's root.
    jailer: Option<PathBuf>,
    /// The version line that Firecracker prints.
    version: String,
}

impl Programs {
    fn find(spec: &SandboxSpec) -> Result<Self, SandboxError> {
        let machines = &spec.provisions.machines;
        let firecracker = installed(&machines.firecracker)?;
        let jailer = if nix::unistd::geteuid().is_root() {
            Some(installed(&machines.jailer)?)
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

fn installed(program: &Path) -> Result<PathBuf, SandboxError> {
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
async fn draw(spec: &SandboxSpec, programs: Programs) -> Result<Machine, SandboxError> {
    let backend = Backend::Firecracker;
    let cache = spec.provisions.cache.clone();
    let kernel = Kernel::find(&spec.provisions.machines, backend)?;
    let disk = disk(spec, backend).await?;
    let made = tokio::task::spawn_blocking(move || {
        let initramfs = initramfs(&cache, &kernel, MODULES)
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
    Ok(Machine {
        disk_stamp: stamp(&disk),
        size: Size::for_limits(&spec.limits, available),
        programs,
        vmlinux,
        initramfs,
        disk,
    })
}

fn describe(programs: &Programs, inside: Vec<String>) -> Vec<String> {
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
struct Standing {
    vmm: Vmm,
    control: Control,
    files: Option<FileServer>,
}

impl super::Standing for Standing {
    /// First ends the guest inside, so that written data is flushed; then the machine, even without
    /// an answer.
    fn take_down(&mut self) -> Later<'_, u64> {
        Box::pin(async {
            let kills = self.control.end().await;
            self.vmm.end().await;
            if let Some(files) = &mut self.files {
                super::Standing::take_down(&mut files.standing).await;
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> Later<'_, u64> {
        Box::pin(async { self.control.kills().await })
    }
}
