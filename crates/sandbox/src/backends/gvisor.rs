//! gVisor: commands run on the user-space kernel of `runsc`, which itself runs behind native walls.
//!
//! ```text
//! host ── native supervisor: namespaces, cgroups, deadline ── runsc, alone in a small root
//!   │                                                           ├─ gofer: the files
//!   └──────────── link socket, inherited by all ────────────────┴─ sentry: kernel ── guest
//! ```
//!
//! | question | answer |
//! |---|---|
//! | what `runsc` sees of the host | itself, the root of the sandbox (as native walls build it) and its own state, which is in memory: it leaves nothing on disk |
//! | its user | user 0 of a user namespace with one user, which outside is the caller or, for root, a user of this sandbox; never the host's root |
//! | whose files commands see | that user's, who is 1000 inside: the guest enters a user namespace of gVisor's kernel. All other owners are unmapped, as on native walls |
//! | how it ends | with its process namespace, which the native supervisor kills; and with the link |
//! | files | the workspace is shared, so both sides see a change at once; the remaining root is exclusive |
//!
//! Differences from native walls: there is no Landlock; a watch sees only changes from inside;
//! the guest limits memory by polling, with the cgroup around all of gVisor as backup; a command
//! can list the open files of the guest's own threads, which gives it no more access: the link is
//! a socket, and sockets cannot be opened that way.
//! Entry point: [`start_backend`].

mod config;
mod error_capture;
mod runsc;
mod runsc_walls;

use std::time::Duration;

use protocol::Backend;
use tokio::net::UnixStream;
use walls::cgroups::Controller;
use walls::plan::Confinement;

use self::error_capture::ErrorCapture;
use self::runsc::{RunscFeatures, RunscProgram, WorkingPlatform};
use self::runsc_walls::RunscWalls;
use super::confined_guest::{ConfineError, confine};
use super::native::wall_plan::HostFacts;
use super::native::{self, gather_facts};
use super::root_entries::UID;
use super::{RunningWalls, StartedBackend, check_strict, wall_descriptions};
use crate::error::SandboxError;
use crate::limits::gvisor_enforcement;
use crate::spec::{RootSpec, SandboxSpec};

/// Timeout of a start. It takes a quarter of a second on an idle machine.
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let facts = gather_facts(spec)?;
    let limits = gvisor_enforcement(&spec.limits, &facts.groups, facts.processors.len());
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let program = RunscProgram::find(&spec.provisions.gvisor.runsc)?;
    let started = match WorkingPlatform::read(&spec.provisions, &program) {
        Some(verdict) => {
            let started = start(spec, &facts, &program, &verdict).await;
            if started.is_err() {
                // The stored platform does not work any more: the next start tries all of them.
                WorkingPlatform::forget(&spec.provisions);
            }
            started?
        }
        None => try_platforms(spec, &facts, &program).await?,
    };
    Ok(StartedBackend::usual(
        Backend::Gvisor,
        started.link,
        started.walls,
        describe(&started.platform, &spec.root),
        limits,
    ))
}

/// Uses the first platform on which a sandbox starts, and stores the result.
async fn try_platforms(
    spec: &SandboxSpec,
    facts: &HostFacts,
    program: &RunscProgram,
) -> Result<StartedGvisor, SandboxError> {
    let offer = RunscFeatures::ask(program).await?;
    let mut refused = None;
    for platform in offer.platforms(&spec.provisions.gvisor) {
        let verdict = offer.verdict(&platform);
        match start(spec, facts, program, &verdict).await {
            Ok(started) => {
                verdict.keep(&spec.provisions, program);
                return Ok(started);
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| unavailable("it offers no platform that works here")))
}

/// A confined guest behind gVisor's walls.
struct StartedGvisor {
    walls: Box<dyn RunningWalls>,
    link: UnixStream,
    platform: String,
}

async fn start(
    spec: &SandboxSpec,
    facts: &HostFacts,
    program: &RunscProgram,
    verdict: &WorkingPlatform,
) -> Result<StartedGvisor, SandboxError> {
    let failed = |doing: &str, source: std::io::Error| SandboxError::Backend {
        backend: Backend::Gvisor,
        doing: doing.into(),
        source: source.into(),
    };
    let complaint = ErrorCapture::new().map_err(|error| failed("listen to `runsc`", error))?;
    let enclosure = RunscWalls::new(spec, program, verdict)
        .map_err(|error| failed("describe the sandbox", error))?;
    let errors = complaint
        .writer()
        .map_err(|error| failed("listen to `runsc`", error))?;
    let around = enclosure.outer_spec();
    let adapt = |plan: &mut _| enclosure.adapt(plan);
    let (mut walls, mut link, _) = native::start_walls(&around, facts, adapt, Some(errors)).await?;
    let confinement = confinement(spec, facts);
    let confined = tokio::time::timeout(START_TIMEOUT, confine(&mut link, &confinement)).await;
    let why = match confined {
        Ok(Ok(_)) => {
            return Ok(StartedGvisor {
                walls: Box::new(walls),
                link,
                platform: verdict.platform.clone(),
            });
        }
        Ok(Err(ConfineError::Refused(source))) => {
            return Err(SandboxError::Backend {
                backend: Backend::Gvisor,
                doing: "confine the guest".into(),
                source: source.into(),
            });
        }
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!(
            "the guest did not answer within {} seconds",
            START_TIMEOUT.as_secs()
        ),
    };
    drop(link);
    walls.take_down().await;
    let said = complaint.last_words();
    Err(unavailable(said.map_or(why, |said| {
        format!(
            "`runsc` cannot start on platform `{}`: {said}",
            verdict.platform
        )
    })))
}

fn confinement(spec: &SandboxSpec, facts: &HostFacts) -> Confinement {
    // As many as gVisor sees, which numbers them from 0.
    let by_affinity = facts.groups.parent(Controller::Cpu).is_none() || facts.group_name.is_none();
    let most = facts.processors.len().max(1);
    let processors = (spec.limits.cpus.ceil() as usize).clamp(1, most);
    Confinement {
        processors: by_affinity.then(|| (0..processors).collect()),
        user: Some(UID),
        is_gvisor: true,
        ..Confinement::default()
    }
}

fn describe(platform: &str, root: &RootSpec) -> Vec<String> {
    [
        format!("a kernel of its own in user space (gVisor, {platform})"),
        "user, mount, pid, network, ipc, uts and cgroup namespaces around it".into(),
        wall_descriptions::root(root).into(),
        wall_descriptions::UNPRIVILEGED.into(),
        wall_descriptions::SECCOMP.into(),
    ]
    .into()
}

fn unavailable(reason: impl Into<String>) -> SandboxError {
    SandboxError::Unavailable {
        backend: Backend::Gvisor,
        reason: reason.into(),
        advice: None,
    }
}
