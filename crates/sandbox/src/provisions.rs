//! What backends use of the machine beside a spec: programs, sockets, kernels, a folder for caches.
//! Plain data; the edge reads settings and environment into it. Nothing here is looked for or
//! made before a backend needs it.

use std::path::{Path, PathBuf};

/// Everything that backends find on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provisions {
    /// Folder for what can be made again: the guest as a file, disks, snapshots, verdicts. It
    /// belongs to this user alone; whoever writes there decides what runs.
    pub cache: PathBuf,
    /// Root file system of backends that cannot show the host's programs, when a spec names none.
    pub default_image: Option<PathBuf>,
    pub containers: Containers,
    pub gvisor: Gvisor,
    pub machines: Machines,
}

/// Podman and Docker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Containers {
    pub podman: PathBuf,
    /// The runtime below Podman, such as `runc`, `crun` or `krun`; its own choice when absent.
    pub podman_runtime: Option<String>,
    /// Folder for what lives as long as a container: sockets, made-up roots. Others may pass
    /// through it to what is theirs.
    pub run: PathBuf,
    /// Socket of the Docker daemon.
    pub docker_socket: PathBuf,
}

/// gVisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gvisor {
    pub runsc: PathBuf,
    /// `systrap`, `kvm` or `ptrace`; the first that works when absent.
    pub platform: Option<String>,
}

/// Virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machines {
    pub qemu: PathBuf,
    pub firecracker: PathBuf,
    pub jailer: PathBuf,
    pub microsandbox: PathBuf,
    /// A kernel and, where it needs any, its folder of modules; the newest of the machine's cloud
    /// kernels, or else its newest, when absent.
    pub kernel: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// The device of the machine's own virtualization.
    pub kvm: PathBuf,
}

/// Where programs are looked for that are only named. No variable of the caller's: it could name
/// anything.
pub(crate) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// A program by its path, or by its name where programs are.
pub(crate) fn locate(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    PATH.split(':')
        .map(|folder| Path::new(folder).join(program))
        .find(|candidate| candidate.is_file())
}

impl Default for Provisions {
    /// Programs by name, sockets where they usually are, and a cache in `/var/tmp`.
    fn default() -> Self {
        let user = nix::unistd::geteuid();
        let cache = PathBuf::from(format!("/var/tmp/hotcell-{user}"));
        let run = if user.is_root() {
            "/run/hotcell".into()
        } else {
            cache.join("run")
        };
        Self {
            cache,
            default_image: None,
            containers: Containers {
                podman: "podman".into(),
                podman_runtime: None,
                run,
                docker_socket: "/var/run/docker.sock".into(),
            },
            gvisor: Gvisor {
                runsc: "runsc".into(),
                platform: None,
            },
            machines: Machines {
                qemu: "qemu-system-x86_64".into(),
                firecracker: "firecracker".into(),
                jailer: "jailer".into(),
                microsandbox: "msb".into(),
                kernel: None,
                modules: None,
                kvm: "/dev/kvm".into(),
            },
        }
    }
}
