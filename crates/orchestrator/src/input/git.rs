//! Clones a repository into a workspace, inside a sandbox that can reach only the repository's
//! host.

use std::path::Path;
use std::time::Duration;

use egress::address::AddressClass;
use egress::{AllowList, Host, classify_on_host};
use reqwest::Url;
use sandbox::request::{CommandStatus, RefusalKind};
use sandbox::{
    CapturedOutput, ExecCommand, LimitKind, Network, Sandbox, SandboxError, SandboxSpec,
};

use super::InputError;

const CLONE_TIMEOUT: Duration = Duration::from_secs(300);

/// Maximum characters of git's error message.
const MAX_REASON_CHARS: usize = 300;

/// A validated repository address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GitSource {
    /// The normalised URL.
    pub(super) url: String,
    pub(super) branch: Option<String>,
    /// The network rule for the clone: the only host that can be reached.
    pub(super) rule: String,
}

impl GitSource {
    pub(super) fn check(url: &str, branch: Option<&str>) -> Result<Self, InputError> {
        let bad = |why: &str| InputError(format!("cannot clone the repository: {why}"));
        let parsed = Url::parse(url).map_err(|_| bad("its address is no URL"))?;
        if parsed.scheme() != "https" {
            return Err(bad("its address must begin with `https://`"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            return Err(bad("its address must not have a name or password in it"));
        }
        let text = parsed.host_str().unwrap_or_default();
        let host = Host::parse(text).map_err(|error| bad(&error.to_string()))?;
        let is_public = match &host {
            Host::Address(address) => classify_on_host(*address) == AddressClass::Public,
            // A rule for this name would allow access to the server itself.
            Host::Name(name) => name != "localhost" && !name.ends_with(".localhost"),
        };
        if !is_public {
            return Err(bad("its host is not public"));
        }
        if let Some(branch) = branch {
            let is_odd = |c: char| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c);
            if branch.is_empty() || branch.starts_with('-') || branch.contains(is_odd) {
                return Err(bad("its branch is no name of one"));
            }
        }
        let port = parsed.port().unwrap_or(443);
        Ok(Self {
            rule: format!("{text}:{port}"),
            url: parsed.into(),
            branch: branch.map(str::to_owned),
        })
    }
}

/// Clones into an empty folder, with the limits of the job's own sandbox.
pub(super) async fn clone(
    source: &GitSource,
    into: &Path,
    spec: &SandboxSpec,
) -> Result<(), InputError> {
    let failed = |why: String| InputError(format!("cannot clone the repository: {why}"));
    let allow = AllowList::parse([&source.rule]).map_err(|error| failed(error.to_string()))?;
    let mut spec = spec.clone();
    spec.workspace = into.to_path_buf();
    spec.network = Network::Allow(allow);
    let wall = spec.limits.wall.unwrap_or(CLONE_TIMEOUT).min(CLONE_TIMEOUT);
    spec.limits.wall = Some(wall);
    let sandbox = Sandbox::start(spec)
        .await
        .map_err(|error| failed(error.to_string()))?;
    let ran = sandbox.run(command(source).timeout(Some(wall))).await;
    sandbox.end().await;
    match ran {
        Ok(captured) if captured.verdict.success() => Ok(()),
        Ok(captured) => Err(failed(failure_reason(&captured))),
        Err(SandboxError::Refused(refusal)) if refusal.kind == RefusalKind::NotFound => {
            Err(failed("git is not installed on the server".to_owned()))
        }
        Err(error) => Err(failed(error.to_string())),
    }
}

fn command(source: &GitSource) -> ExecCommand {
    let mut argv = vec!["git", "-c", "credential.helper=", "clone", "--depth", "1"];
    if let Some(branch) = &source.branch {
        argv.extend(["--branch", branch]);
    }
    argv.extend(["--", &source.url, "."]);
    ExecCommand::new(argv)
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("LC_ALL", "C")
}

/// What went wrong, in one line.
fn failure_reason(captured: &CapturedOutput) -> String {
    match captured.verdict.limit {
        Some(LimitKind::WallTime) => return "it took too long".to_owned(),
        Some(limit) => return format!("it reached the limit on {}", limit.name()),
        None => {}
    }
    if captured.verdict.status == CommandStatus::Code(127) {
        return "git is not installed on the server".to_owned();
    }
    let text = String::from_utf8_lossy(&captured.stderr);
    let last = text
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let last = last.unwrap_or("git says nothing of the reason");
    let clean = last.chars().filter(|c| !c.is_control());
    clean.take(MAX_REASON_CHARS).collect()
}
