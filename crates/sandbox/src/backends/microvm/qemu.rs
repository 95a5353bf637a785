//! One QEMU process behind native walls: its root has its own libraries, the kernel, the image's
//! disk and the workspace, and nothing else of the host. It runs as an unprivileged user, under the
//! same system call filter as any command. Entry type: [`Qemu`].

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream as Socket;
use std::path::{Path, PathBuf};
use std::time::Duration;

use protocol::Backend;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;
use walls::machine::{HelperTask, ProgramExit, VmmProgram};
use walls::plan::{MountAccess, Process1Role, RootEntry, WallsPlan};

use super::acceleration::{Acceleration, KVM_PATH};
use super::blueprint::{Blueprint, DISK_PATH, INITRAMFS_PATH, KERNEL_PATH, MachineStart};
use super::monitor::QemuMonitor;
use crate::backends::machine::control::MachineControl;
use crate::backends::machine::step;
use crate::backends::root_entries::host_entry;
use crate::backends::{RunningWalls as _, native};
use crate::error::SandboxError;
use crate::limits::SandboxLimits;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};

/// In addition to the machine's memory: QEMU itself, its translation cache, the file server.
const MEMORY_OVERHEAD_BYTES: u64 = 384 << 20;

/// Threads of QEMU and of the file server, in addition to one for each processor.
const QEMU_THREADS: u32 = 64;

/// Time after the deadline in which a machine may end by itself.
const DEADLINE_GRACE_PERIOD: Duration = Duration::from_secs(10);

/// Folders of libraries and QEMU's data, on the distributions that have them.
const LIBRARY_PATHS: &[&str] = &[
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr/lib",
    "/usr/lib64",
    "/usr/share/qemu",
    "/usr/share/qemu-kvm",
    "/usr/share/seabios",
    "/usr/share/ipxe",
    "/nix/store",
    "/gnu/store",
    "/etc/ld.so.cache",
];

/// A running QEMU. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Qemu {
    walls: native::NativeWalls,
    /// To the helper process behind the same walls.
    beside: UnixStream,
    pub(super) link: UnixStream,
    pub(super) control: MachineControl,
    pub(super) monitor: QemuMonitor,
}

/// Parameters of a start.
#[derive(Debug)]
pub(super) struct QemuStart<'a> {
    pub(super) blueprint: &'a Blueprint,
    pub(super) beginning: MachineStart,
    pub(super) memory: BorrowedFd<'a>,
    pub(super) state: Option<BorrowedFd<'a>>,
    /// Its workspace is served, and its limits apply to QEMU too.
    pub(super) spec: &'a SandboxSpec,
}

impl Qemu {
    pub(super) async fn start(start: &QemuStart<'_>) -> Result<Self, SandboxError> {
        let outside = outside(start);
        let facts = native::gather_facts(&outside)?;
        let adapt = |plan: &mut WallsPlan| adapt(plan, start);
        let (mut walls, beside, _) = native::start_walls(&outside, &facts, adapt, None).await?;
        match send_task(start, beside).await {
            Ok(channels) => Ok(Self {
                walls,
                beside: channels.beside,
                link: channels.link,
                control: MachineControl::new(channels.control),
                monitor: QemuMonitor::new(channels.monitor),
            }),
            Err(error) => {
                walls.take_down().await;
                Err(step(Backend::Microvm, "start QEMU", error))
            }
        }
    }

    /// QEMU's error output, after another step has failed.
    pub(super) async fn last_words(&mut self) -> Option<String> {
        const EXIT_TIMEOUT: Duration = Duration::from_secs(3);
        let listen = async {
            let length = self.beside.read_u32_le().await?;
            let mut framed = length.to_le_bytes().to_vec();
            framed.resize(4 + length.min(64 * 1024) as usize, 0);
            self.beside.read_exact(&mut framed[4..]).await?;
            walls::plan::receive::<ProgramExit>(&framed[..])
        };
        let ending = tokio::time::timeout(EXIT_TIMEOUT, listen)
            .await
            .ok()?
            .ok()?;
        Some(if ending.last_stderr_line.is_empty() {
            format!("QEMU ended with {}", ending.status)
        } else {
            ending.last_stderr_line
        })
    }

    /// Whether it has ended already.
    pub(super) fn has_ended(&self) -> bool {
        // The guest sends nothing on the link before the host does, so anything but `WouldBlock` is
        // the end.
        !matches!(
            self.link.try_read(&mut [0]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock
        )
    }

    pub(super) async fn take_down(&mut self) {
        self.walls.take_down().await;
    }

    /// Sets a deadline as backup for the machine's own deadline, starting now.
    pub(super) async fn limit_time(&mut self, wall: Duration) -> io::Result<()> {
        self.walls.set_deadline(wall + DEADLINE_GRACE_PERIOD).await
    }

    /// Splits off the parts that a sandbox needs.
    pub(super) fn into_parts(
        self,
    ) -> (native::NativeWalls, UnixStream, MachineControl, QemuSockets) {
        let keep = QemuSockets {
            _beside: self.beside,
            _monitor: self.monitor,
        };
        (self.walls, self.link, self.control, keep)
    }
}

/// Sockets that must stay open: closing one ends the machine.
#[derive(Debug)]
pub(super) struct QemuSockets {
    _beside: UnixStream,
    _monitor: QemuMonitor,
}

/// The host's ends of the sockets.
struct QemuChannels {
    beside: UnixStream,
    link: UnixStream,
    control: UnixStream,
    monitor: UnixStream,
}

async fn send_task(start: &QemuStart<'_>, beside: UnixStream) -> io::Result<QemuChannels> {
    let (link, far_link) = Socket::pair()?;
    let (control, far_control) = Socket::pair()?;
    let (files, far_files) = Socket::pair()?;
    let (monitor, far_monitor) = Socket::pair()?;
    let errand = HelperTask {
        program: Some(VmmProgram {
            path: start.blueprint.qemu.clone(),
            arguments: start.blueprint.arguments(start.beginning),
        }),
        folder: Some(WORKSPACE_PATH.into()),
    };
    let mut descriptors = vec![
        files.as_fd(),
        far_link.as_fd(),
        far_control.as_fd(),
        far_files.as_fd(),
        far_monitor.as_fd(),
        start.memory,
    ];
    descriptors.extend(start.state);
    // Blocking, so that everything is sent. Nothing else uses the socket meanwhile.
    let socket = beside.into_std()?;
    socket.set_nonblocking(false)?;
    errand.send(&socket, &descriptors)?;
    let ours = |socket: Socket| {
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket)
    };
    Ok(QemuChannels {
        beside: ours(socket)?,
        link: ours(link)?,
        control: ours(control)?,
        monitor: ours(monitor)?,
    })
}

/// The spec of the walls around QEMU: a native sandbox with extra room for QEMU.
fn outside(start: &QemuStart<'_>) -> SandboxSpec {
    let size = start.blueprint.size;
    let limits = &start.spec.limits;
    SandboxSpec {
        backend: Backend::Native,
        root: RootSpec::Host,
        limits: SandboxLimits {
            memory: size.memory + MEMORY_OVERHEAD_BYTES,
            cpus: match start.beginning {
                // A snapshot is shared, so its boot is not slowed down by the limits of the first
                // sandbox.
                MachineStart::Boot { .. } => size.processors as f64,
                MachineStart::Restore => limits.cpus,
            },
            pids: QEMU_THREADS + size.processors as u32,
            open_files: 4096,
            // Set later, when the machine is assigned: see `limit_time`.
            wall: None,
            ..*limits
        },
        ..start.spec.clone()
    }
}

/// Turns a plan for commands into one for QEMU.
fn adapt(plan: &mut WallsPlan, start: &QemuStart<'_>) {
    let workspace = plan.root_entries.drain(..).find(
        |fitting| matches!(fitting, RootEntry::Bind { target, .. } if target == Path::new(WORKSPACE_PATH)),
    );
    plan.role = Process1Role::VmmHelper;
    plan.hostname = "machine".into();
    plan.root_entries = qemu_entries(start.blueprint, plan.identity.drop_groups);
    plan.root_entries.extend(workspace);
    plan.writable = vec!["/dev/null".into(), "/proc".into(), WORKSPACE_PATH.into()];
    if start.blueprint.acceleration == Acceleration::Kvm {
        plan.root_entries.push(device(KVM_PATH));
        plan.writable.push(KVM_PATH.into());
        // A sandbox of root has its own user, which is only in this group.
        if plan.identity.drop_groups
            && let Ok(found) = fs::metadata(KVM_PATH)
        {
            plan.identity.outside_gid = found.gid();
        }
    }
}

/// The entries that QEMU sees. The cache of the host's root is not readable for other users.
fn qemu_entries(blueprint: &Blueprint, is_root: bool) -> Vec<RootEntry> {
    let folder = |target: &Path| RootEntry::Folder {
        target: target.into(),
        mode: 0o755,
    };
    let file = |source: &Path, target: PathBuf| RootEntry::Bind {
        source: source.into(),
        target,
        access: MountAccess::ReadOnly,
        idmap: None,
    };
    let kept = |source: &Path, target: PathBuf| {
        if is_root {
            RootEntry::SupervisorBind {
                source: source.into(),
                target,
            }
        } else {
            file(source, target)
        }
    };
    let mut all = Vec::new();
    for path in LIBRARY_PATHS {
        if let Some(host_entry) = host_entry(path.into()) {
            all.extend(Path::new(path).parent().map(folder));
            all.push(host_entry);
        }
    }
    let qemu = &blueprint.qemu;
    all.extend(qemu.parent().map(folder));
    all.push(file(qemu, qemu.clone()));
    for path in ["/machine", "/dev", "/tmp"] {
        all.push(folder(Path::new(path)));
    }
    all.push(kept(&blueprint.kernel.image, KERNEL_PATH.into()));
    all.push(kept(&blueprint.initramfs.file, INITRAMFS_PATH.into()));
    all.push(kept(&blueprint.disk, DISK_PATH.into()));
    all.push(RootEntry::Proc {
        target: "/proc".into(),
    });
    all.extend(["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"].map(device));
    all
}

fn device(path: &str) -> RootEntry {
    RootEntry::Bind {
        source: path.into(),
        target: path.into(),
        access: MountAccess::Device,
        idmap: None,
    }
}

/// A new descriptor of a memory file, with its own offset.
pub(super) fn reopen(file: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(fs::File::open(path)?.into())
}
