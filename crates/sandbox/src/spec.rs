//! What a sandbox is asked to be. Plain data: whoever builds it has already read flags,
//! environment and files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;

use crate::limits::Limits;

/// Everything about one sandbox.
#[derive(Debug, Clone)]
pub struct SandboxSpec {
    /// What the record calls it; made up when absent.
    pub name: Option<String>,
    pub backend: Backend,
    /// The only host folder inside, at [`WORKSPACE`].
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
}

/// Where the workspace stands inside.
pub const WORKSPACE: &str = "/workspace";

/// Which walls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// The strongest that works here; never `None`.
    #[default]
    Auto,
    Native,
    /// No walls at all, for people who insist.
    None,
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
    /// The default sandbox on a workspace folder.
    pub fn new(workspace: impl Into<PathBuf>) -> Self {
        Self {
            name: None,
            backend: Backend::Auto,
            workspace: workspace.into(),
            root: RootSpec::Host,
            limits: Limits::default(),
            strict_limits: false,
            network: Network::Off,
            env: Vec::new(),
            audit: None,
        }
    }

    /// Wall time after which everything ends.
    pub fn deadline(&self) -> Option<Duration> {
        self.limits.wall
    }
}
