//! The specification of a sandbox. Plain data: the caller has already read flags, environment and
//! files.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;
use protocol::{Backend, Strength};

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
