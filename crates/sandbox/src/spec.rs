//! The specification of a sandbox. Plain data: the caller has already read flags, environment and
//! files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;
use serde::{Deserialize, Serialize};

use crate::backend_config::BackendConfig;
use crate::backends::MachinePool;
use crate::limits::SandboxLimits;

/// Everything that defines one sandbox.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// Name in the audit log; generated if absent.
    pub name: Option<String>,
    pub backend: Backend,
    /// Minimum strength. Starting fails if `backend` is weaker.
    pub require: Strength,
    /// The only host folder inside, at [`WORKSPACE_PATH`]. Must be a real path: starting fails if any
    /// part of it is a symbolic link, because another sandbox may have placed one after the path
    /// was checked.
    pub workspace: PathBuf,
    pub root: RootSpec,
    pub limits: SandboxLimits,
    /// Refuse to start when a limit has no enforcer on this machine.
    pub strict_limits: bool,
    pub network: Network,
    /// Environment variables of every command, in addition to the usual ones.
    pub env: Vec<(String, String)>,
    /// Audit log for commands, file writes and connections.
    pub audit: Option<Arc<AuditLog>>,
    /// The resources that the backends use; shared by all sandboxes of a process.
    pub provisions: Arc<BackendConfig>,
    /// Machines that are started ahead, for the `microvm` backend.
    pub pool: Option<Arc<MachinePool>>,
}

/// Path of the workspace inside.
pub const WORKSPACE_PATH: &str = "/workspace";

/// The kinds of walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The strongest backend that a probe found working here and that the policy allows; never
    /// `None`.
    #[default]
    Auto,
    Native,
    Podman,
    Docker,
    Gvisor,
    Microvm,
    Firecracker,
    Microsandbox,
    /// No walls at all. Must be requested explicitly.
    None,
}

impl Backend {
    /// The backends with walls.
    pub const WALLED: [Self; 7] = [
        Self::Native,
        Self::Podman,
        Self::Docker,
        Self::Gvisor,
        Self::Microvm,
        Self::Firecracker,
        Self::Microsandbox,
    ];

    /// All backends, in display order.
    pub const ALL: [Self; 9] = [
        Self::Auto,
        Self::Native,
        Self::Podman,
        Self::Docker,
        Self::Gvisor,
        Self::Microvm,
        Self::Firecracker,
        Self::Microsandbox,
        Self::None,
    ];

    /// Parses a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it cannot show the host's programs and therefore needs an image.
    pub fn needs_image(self) -> bool {
        self.strength() == Strength::Vm
    }

    /// The name in settings and output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Native => "native",
            Self::Podman => "podman",
            Self::Docker => "docker",
            Self::Gvisor => "gvisor",
            Self::Microvm => "microvm",
            Self::Firecracker => "firecracker",
            Self::Microsandbox => "microsandbox",
            Self::None => "none",
        }
    }

    /// The barrier between a command and the host's kernel. `Auto` has none of its own: it is as
    /// strong as the policy requires.
    pub fn strength(self) -> Strength {
        match self {
            Self::None | Self::Auto => Strength::None,
            Self::Native | Self::Podman | Self::Docker => Strength::Namespaces,
            Self::Gvisor => Strength::Kernel,
            Self::Microvm | Self::Firecracker | Self::Microsandbox => Strength::Vm,
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// What an escape has to break, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Nothing.
    #[default]
    None,
    /// The host's kernel, seen through namespaces and filters.
    Namespaces,
    /// A kernel in user space, then the host's.
    Kernel,
    /// A separate kernel in a virtual machine, then the host's.
    Vm,
}

impl Strength {
    /// Values that can be required.
    pub const REQUIRABLE: [Self; 3] = [Self::Namespaces, Self::Kernel, Self::Vm];

    /// Parses a name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = [Self::None].into_iter().chain(Self::REQUIRABLE);
        all.find(|one| one.name() == name)
    }

    /// The value of `--require`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespaces => "namespaces",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
        }
    }
}

/// The root file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSpec {
    /// The host's programs and libraries, read-only.
    Host,
    /// A folder with a root file system, under an overlay.
    Image(PathBuf),
}

/// Network access from inside.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// Loopback only.
    #[default]
    Off,
    /// Loopback, and these hosts through the host's proxy.
    Allow(egress::AllowList),
    /// Loopback, and hosts that this gate allows through the host's proxy. Its rules can grow, and
    /// it may ask the user about other hosts.
    Gated(egress::EgressGate),
}

impl Network {
    /// The hosts that are reachable without asking, in the notation of `--allow-net`.
    pub fn open(&self) -> Vec<String> {
        match self {
            Self::Off => Vec::new(),
            Self::Allow(allow) => allow.rules().iter().map(ToString::to_string).collect(),
            Self::Gated(gate) => gate.hosts().open(),
        }
    }

    /// Whether the user is asked about other hosts.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Gated(gate) if gate.asks())
    }
}

impl SandboxSpec {
    /// The workspace, if its path is the real path of a folder. For backends whose engine mounts it
    /// by path.
    pub(crate) fn real_workspace(&self) -> io::Result<PathBuf> {
        let real = self.workspace.canonicalize()?;
        match () {
            () if real != self.workspace => Err(io::Error::other("it is a symbolic link")),
            () if !real.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
            () => Ok(real),
        }
    }

    /// The default sandbox on a workspace folder.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            name: None,
            backend: Backend::Auto,
            require: Strength::None,
            workspace: workspace.into(),
            root: RootSpec::Host,
            limits: SandboxLimits::default(),
            strict_limits: false,
            network: Network::Off,
            env: Vec::new(),
            audit: None,
            provisions: Arc::default(),
            pool: None,
        }
    }

    /// Wall time after which everything ends.
    pub fn deadline(&self) -> Option<Duration> {
        self.limits.wall
    }
}
