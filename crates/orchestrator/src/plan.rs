//! Resolves a job's request against the server's policy. Pure, except for the audit log that is
//! passed through.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use audit::AuditLog;
use egress::{AllowList, RuleError};
use protocol::job::{Job, JobRequest};
use protocol::{Backend, Budget, Strength};
use sandbox::{Network, SandboxSpec};

use crate::config::{JobPolicy, ServerConfig};
use crate::folder::JobFolder;

/// How much longer than the job's deadline the sandbox lives, so that the worker can end the job
/// gracefully.
const SANDBOX_SLACK: Duration = Duration::from_secs(60);

/// How many full waits an interactive job may have under one claim. Then it ends; a later message
/// requeues it.
const MAX_FULL_WAITS: u32 = 12;

/// How long a job may run, over all claims.
pub(crate) fn timeout(request: &JobRequest, policy: &JobPolicy) -> Duration {
    let wanted = request.timeout.map(Duration::from_secs);
    wanted.map_or(policy.timeout, |wanted| wanted.min(policy.timeout))
}

/// How long a job may wait for messages under one claim.
pub(crate) fn message_wait(request: &JobRequest, config: &ServerConfig) -> Duration {
    if request.interactive {
        config.linger.saturating_mul(MAX_FULL_WAITS)
    } else {
        config.linger
    }
}

/// The requested budget within the server's. The worker enforces the run time, because waiting does
/// not count.
pub(crate) fn budget(request: &JobRequest, policy: &JobPolicy) -> Budget {
    request.budget.at_most(policy.budget)
}

/// The sandbox backend of a job.
pub(crate) fn backend(request: &JobRequest, policy: &JobPolicy) -> Backend {
    request.backend.unwrap_or(policy.sandbox.backend)
}

/// The required strength of the walls. A job can only raise the server's minimum.
pub(crate) fn require(request: &JobRequest, policy: &JobPolicy) -> Strength {
    let wanted = request.require.unwrap_or_default();
    wanted.max(policy.sandbox.require)
}

/// The network rules of all jobs plus those of this job.
pub(crate) fn network(request: &JobRequest, policy: &JobPolicy) -> Result<Network, RuleError> {
    let mut rules = match &policy.sandbox.network {
        Network::Off => Vec::new(),
        Network::Allow(allow) => allow.rules().to_vec(),
        Network::Gated(gate) => gate.hosts().policy().allowed(),
    };
    for rule in AllowList::parse(&request.network)?.rules() {
        if !rules.contains(rule) {
            rules.push(rule.clone());
        }
    }
    Ok(if rules.is_empty() {
        Network::Off
    } else {
        Network::Allow(AllowList::new(rules))
    })
}

/// The workspace with links resolved: a sandbox requires a real path, and the path of the data
/// folder may contain links.
fn real_workspace(folder: &JobFolder) -> PathBuf {
    let workspace = folder.workspace();
    let real = folder.path().canonicalize().ok();
    match real.zip(workspace.file_name()) {
        Some((real, name)) => real.join(name),
        None => workspace,
    }
}

/// The sandbox of a job under its current claim; `ran` is the job's run time so far.
pub(crate) fn spec(
    job: &Job,
    folder: &JobFolder,
    config: &ServerConfig,
    ran: Duration,
    audit: Arc<AuditLog>,
) -> Result<SandboxSpec, RuleError> {
    let policy = &config.policy;
    let request = &job.request;
    let wall = timeout(request, policy)
        .saturating_sub(ran)
        .saturating_add(message_wait(request, config))
        .saturating_add(SANDBOX_SLACK);
    let mut limits = policy.sandbox.limits.lowered(&request.limits);
    limits.wall = Some(limits.wall.map_or(wall, |ceiling| ceiling.min(wall)));
    Ok(SandboxSpec {
        name: Some(format!("{}-e{}", job.id, job.epoch)),
        backend: backend(request, policy),
        require: require(request, policy),
        workspace: real_workspace(folder),
        limits,
        network: network(request, policy)?,
        audit: Some(audit),
        ..policy.sandbox.clone()
    })
}
