//! The resources of the machine that backends use: programs, sockets, kernels, a cache folder.
//! Plain data; the caller fills it from settings and environment. Nothing is searched for or
//! created before a backend needs it.

use std::path::{Path, PathBuf};

/// Everything that backends use on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendConfig {
    /// Folder for files that can be rebuilt: the guest as a file, disks, snapshots, probe results.
    /// Only this user may write to it, because its content is executed.
    pub cache: PathBuf,
    /// Root file system for backends that cannot show the host's programs, if a spec names none.
    pub default_image: Option<PathBuf>,
    pub containers: ContainerConfig,
    pub gvisor: GvisorConfig,
    pub machines: VmConfig,
}

/// Podman and Docker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerConfig {
    pub podman: PathBuf,
    /// The runtime below Podman, such as `runc`, `crun` or `krun`; Podman chooses if absent.
    pub podman_runtime: Option<String>,
    /// Folder for files that live as long as a container: sockets, generated roots. Other users may
    /// traverse it to reach their own files.
    pub run: PathBuf,
    /// Socket of the Docker daemon.
    pub docker_socket: PathBuf,
}

/// gVisor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GvisorConfig {
    pub runsc: PathBuf,
    /// `systrap`, `kvm` or `ptrace`; the first that works if absent.
    pub platform: Option<String>,
}

/// Virtual machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VmConfig {
    pub qemu: PathBuf,
    pub firecracker: PathBuf,
    pub jailer: PathBuf,
    pub microsandbox: PathBuf,
    /// A kernel and, if it needs any, its modules folder. If absent, the newest cloud kernel of the
    /// machine, or else its newest kernel.
    pub kernel: Option<PathBuf>,
    pub modules: Option<PathBuf>,
    /// The KVM device.
    pub kvm: PathBuf,
}

/// Search path for programs given by name. The caller's PATH variable is not used, because it could name
/// anything.
pub(crate) const PROGRAM_SEARCH_PATH: &str =
    "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Finds a program by its path, or by its name in [`PROGRAM_SEARCH_PATH`].
pub(crate) fn find_program(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return program.is_file().then(|| program.to_owned());
    }
    PROGRAM_SEARCH_PATH
        .split(':')
        .map(|folder| Path::new(folder).join(program))
        .find(|candidate| candidate.is_file())
}

impl Default for BackendConfig {
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
            containers: ContainerConfig {
                podman: "podman".into(),
                podman_runtime: None,
                run,
                docker_socket: "/var/run/docker.sock".into(),
            },
            gvisor: GvisorConfig {
                runsc: "runsc".into(),
                platform: None,
            },
            machines: VmConfig {
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
