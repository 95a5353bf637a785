//! What a sandbox is asked to be. Plain data: whoever builds it has already read flags,
//! environment and files.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;
use serde::{Deserialize, Serialize};

use crate::backends::Pool;
use crate::limits::Limits;
use crate::provisions::Provisions;

/// Everything about one sandbox.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// What the record calls it; made up when absent.
    pub name: Option<String>,
    pub backend: Backend,
    /// Nothing weaker is ever started, whatever `backend` says: then the start fails.
    pub require: Strength,
    /// The only host folder inside, at [`WORKSPACE`]. A real path: starting fails if any part of it
    /// is a symbolic link, which another sandbox may have put there since it was looked at.
    pub workspace: PathBuf,
    pub root: RootSpec,
    pub limits: Limits,
    /// Refuse to start when a limit has no enforcer on this machine.
    pub strict_limits: bool,
    pub network: Network,
    /// Variables of every command, beside the usual ones.
    pub env: Vec<(String, String)>,
    /// Where every command, file write and connection is recorded.
    pub audit: Option<Arc<AuditLog>>,
    /// What the backends find on this machine; one for all sandboxes of a process.
    pub provisions: Arc<Provisions>,
    /// Machines that wait, for the `microvm` backend.
    pub pool: Option<Arc<Pool>>,
}

/// Where the workspace stands inside.
pub const WORKSPACE: &str = "/workspace";

/// Which walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backend {
    /// The strongest that was proved here and that the policy allows; never `None`.
    #[default]
    Auto,
    Native,
    Podman,
    Docker,
    Gvisor,
    Microvm,
    Firecracker,
    Microsandbox,
    /// No walls at all, for people who insist.
    None,
}

impl Backend {
    /// Those that put up walls.
    pub const WALLED: [Self; 7] = [
        Self::Native,
        Self::Podman,
        Self::Docker,
        Self::Gvisor,
        Self::Microvm,
        Self::Firecracker,
        Self::Microsandbox,
    ];

    /// All of them, as people are shown them.
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

    /// The one that people write like this.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.name() == name)
    }

    /// Whether it cannot show the host's programs, and so runs those of an image.
    pub fn needs_image(self) -> bool {
        self.strength() == Strength::Vm
    }

    /// As people write it.
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

    /// What stands between a command and the host's kernel. `Auto` is as strong as the policy
    /// demands, which is nothing here.
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

/// What a way out has to break, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Strength {
    /// Nothing.
    #[default]
    None,
    /// The host's kernel, seen through namespaces and filters.
    Namespaces,
    /// A kernel in user space, and then the host's.
    Kernel,
    /// A kernel of its own on a machine of its own, and then the host's.
    Vm,
}

impl Strength {
    /// Those that can be required.
    pub const REQUIRABLE: [Self; 3] = [Self::Namespaces, Self::Kernel, Self::Vm];

    /// The one that people write like this.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = [Self::None].into_iter().chain(Self::REQUIRABLE);
        all.find(|one| one.name() == name)
    }

    /// As people write it after `--require`.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Namespaces => "namespaces",
            Self::Kernel => "kernel",
            Self::Vm => "vm",
        }
    }
}

/// What `/` is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RootSpec {
    /// The host's programs and libraries, read-only.
    Host,
    /// A folder with a root file system, under an overlay.
    Image(PathBuf),
}

/// What can be reached.
#[derive(Debug, Clone, Default)]
pub enum Network {
    /// Loopback only.
    #[default]
    Off,
    /// Loopback, and these hosts through the host's proxy.
    Allow(egress::Allow),
    /// Loopback, and what this gate lets through the host's proxy: its rules can grow, and it may
    /// ask somebody about other hosts.
    Gated(egress::Gate),
}

impl Network {
    /// The hosts that can be reached without a question, as `--allow-net` takes them.
    pub fn open(&self) -> Vec<String> {
        match self {
            Self::Off => Vec::new(),
            Self::Allow(allow) => allow.rules().iter().map(ToString::to_string).collect(),
            Self::Gated(gate) => gate.hosts().open(),
        }
    }

    /// Whether somebody is asked about other hosts.
    pub fn asks(&self) -> bool {
        matches!(self, Self::Gated(gate) if gate.asks())
    }
}

impl SandboxSpec {
    /// The workspace, if its path is a folder's real one. For backends whose engine mounts it by
    /// path.
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
            limits: Limits::default(),
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
