//! Checks what protects a sandbox on this machine by starting one and querying the kernel inside.
//!
//! [`examine`] checks one backend, [`probe`] does so with a timeout and stores the result,
//! [`stored_results`] and [`auto_choice`] evaluate stored results.

mod memory;
mod protections;

use std::time::{Duration, Instant};

use protocol::{Backend, SandboxInfo, Strength};
use serde::Serialize;

use self::memory::ProcessSnapshot;
pub use self::protections::Protection;
use self::protections::{GuestView, is_required, protections};
use crate::backend_config::BackendConfig;
use crate::backends::{self, firecracker, microsandbox, wall_descriptions};
use crate::error::SandboxError;
use crate::error_chain::error_chain;
use crate::exec::ExecCommand;
use crate::handle::Sandbox;
use crate::limits::{LimitEnforcement, SandboxLimits};
use crate::probe_cache::{ProbeCache, ProbeResult};
use crate::selection::{self, BackendChoice, SelectionInput};
use crate::spec::{RootSpec, SandboxSpec};

pub use crate::selection::BACKENDS_BY_STRENGTH;

/// The result of examining one backend.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    pub backend: Backend,
    pub strength: Strength,
    pub works: bool,
    /// Why it does not work.
    pub problem: Option<String>,
    pub hint: Option<String>,
    /// The walls, each in a few words.
    pub walls: Vec<String>,
    pub protections: Vec<Protection>,
    pub limits: Vec<LimitEnforcement>,
    /// Time from the start to the end of the first command.
    pub start: Option<Duration>,
    /// Time of a further command.
    pub exec: Option<Duration>,
    /// Bytes of host memory of an idle sandbox, if its processes are visible.
    pub memory: Option<u64>,
    /// Whether its machine is emulated in software.
    pub is_emulated: bool,
    /// The components it uses here, in a few words each.
    pub notes: Vec<String>,
}

impl Diagnosis {
    fn failed(backend: Backend, problem: String, hint: Option<String>) -> Self {
        Self {
            backend,
            strength: backend.strength(),
            works: false,
            problem: Some(problem),
            hint,
            walls: Vec::new(),
            protections: Vec::new(),
            limits: Vec::new(),
            start: None,
            exec: None,
            memory: None,
            is_emulated: false,
            notes: Vec::new(),
        }
    }

    fn to_probe_result(&self, backend: Backend) -> ProbeResult {
        let milliseconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        ProbeResult {
            works: self.works,
            is_emulated: self.is_emulated,
            problem: self.problem.clone(),
            hint: self.hint.clone(),
            notes: self.notes.clone(),
            start_ms: milliseconds(self.start),
            exec_ms: milliseconds(self.exec),
            memory: self.memory,
            ..ProbeResult::of(backend)
        }
    }
}

/// The parts of a backend that its developers could not run on real hardware.
pub fn untested_parts(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Firecracker => Some(firecracker::UNTESTED_NOTE),
        Backend::Microsandbox => Some(microsandbox::UNTESTED_NOTE),
        _ => None,
    }
}

/// Starts a sandbox from the spec and examines it from inside. `Auto` is examined as `Native`.
pub async fn examine(mut spec: SandboxSpec) -> Diagnosis {
    if spec.backend == Backend::Auto {
        spec.backend = Backend::Native;
    }
    let backend = spec.backend;
    match look(spec).await {
        Ok(diagnosis) => diagnosis,
        Err(error) => Diagnosis::failed(backend, error_chain(&error), error.hint()),
    }
}

/// Examines one backend, whatever backend the spec names, and stores the result.
pub async fn probe(spec: &SandboxSpec, backend: Backend) -> Diagnosis {
    let spec = spec_for_backend(spec, backend);
    if backend.needs_image() && !has_image(&spec) {
        // This says nothing about the machine, so it is not stored.
        let error = backends::lacks_image(backend);
        return Diagnosis::failed(backend, error.to_string(), error.hint());
    }
    let provisions = spec.provisions.clone();
    let diagnosis = examine_with_timeout(spec).await;
    let kept = ProbeCache::read(&provisions).keep(diagnosis.to_probe_result(backend), &provisions);
    if let Err(error) = kept {
        tracing::warn!(%backend, %error, "cannot store a probe result");
    }
    diagnosis
}

/// Like [`probe`], for callers that store the result themselves.
pub(crate) async fn probe_without_storing(spec: &SandboxSpec, backend: Backend) -> ProbeResult {
    examine_with_timeout(spec_for_backend(spec, backend))
        .await
        .to_probe_result(backend)
}

/// A copy of the spec that requests this backend and no required strength.
fn spec_for_backend(spec: &SandboxSpec, backend: Backend) -> SandboxSpec {
    SandboxSpec {
        // The result is stored, so it must not depend on the time limit of one sandbox.
        limits: SandboxLimits {
            wall: None,
            ..spec.limits
        },
        name: None,
        backend,
        require: Strength::None,
        strict_limits: false,
        audit: None,
        ..spec.clone()
    }
}

async fn examine_with_timeout(spec: SandboxSpec) -> Diagnosis {
    let backend = spec.backend;
    let deadline = deadline(backend);
    let look = async {
        let first = examine(spec.clone()).await;
        if first.works && backend.strength() == Strength::Vm {
            // The first boot made the disk and the snapshot. The second one shows normal times.
            examine(spec).await
        } else {
            first
        }
    };
    match tokio::time::timeout(deadline, look).await {
        Ok(diagnosis) => diagnosis,
        Err(_) => {
            let seconds = deadline.as_secs();
            let problem = format!("cannot use the `{backend}` backend: no answer in {seconds} s");
            Diagnosis::failed(backend, problem, None)
        }
    }
}

/// Time limit of a probe. The first boot of a machine may have to make its disk and snapshot.
fn deadline(backend: Backend) -> Duration {
    match backend.strength() {
        Strength::Vm => Duration::from_secs(180),
        _ => Duration::from_secs(60),
    }
}

/// Stored results that are still valid.
pub fn stored_results(provisions: &BackendConfig) -> Vec<ProbeResult> {
    ProbeCache::read(provisions).all().to_vec()
}

/// The backend that `auto` would choose for this spec, from stored results alone.
pub fn auto_choice(spec: &SandboxSpec) -> Result<BackendChoice, SandboxError> {
    first_choice(spec, &ProbeCache::read(&spec.provisions))
}

/// Like [`auto_choice`], but first probes backends whose result is needed and unknown. Needs a
/// workspace.
pub async fn resolve_auto(spec: &SandboxSpec) -> Result<BackendChoice, SandboxError> {
    first_choice(spec, &backends::probe_unknown(spec).await)
}

fn first_choice(spec: &SandboxSpec, proofs: &ProbeCache) -> Result<BackendChoice, SandboxError> {
    let question = SelectionInput {
        require: spec.require,
        has_image: has_image(spec),
        proofs: proofs.all(),
    };
    let choices = selection::choose(&question)?;
    let first = choices.into_iter().next();
    Ok(first.expect("`choose` returns at least one choice"))
}

pub(crate) fn has_image(spec: &SandboxSpec) -> bool {
    matches!(spec.root, RootSpec::Image(_)) || spec.provisions.default_image.is_some()
}

/// The components that a backend uses here, where they vary: its first wall names them.
fn components(info: &SandboxInfo) -> Vec<String> {
    let first = info.walls.first();
    let first = first.filter(|_| info.backend != Backend::Native);
    first.cloned().into_iter().collect()
}

async fn look(spec: SandboxSpec) -> Result<Diagnosis, SandboxError> {
    let backend = spec.backend;
    let before = ProcessSnapshot::now();
    let began = Instant::now();
    let sandbox = Sandbox::start(spec).await?;
    let first = sandbox.run(ExecCommand::new(["/bin/true"])).await?;
    let start = began.elapsed();
    let began = Instant::now();
    sandbox.run(ExecCommand::new(["/bin/true"])).await?;
    let exec = began.elapsed();
    let seen = GuestView::look(&sandbox).await?;
    let (info, limits) = (sandbox.info().clone(), sandbox.limits().to_vec());
    let memory = memory::sandbox_memory_bytes(&before, backend, &seen.walls);
    let mut protections = protections(backend, sandbox.root(), &seen);
    let landlock = wall_descriptions::landlock(sandbox.landlock);
    protections.push(Protection {
        name: "Landlock",
        holds: landlock.is_some(),
        evidence: landlock.unwrap_or_else(|| "this kernel has none".into()),
    });
    sandbox.end().await;
    let missing: Vec<&str> = protections
        .iter()
        .filter(|one| !one.holds && is_required(backend, one.name))
        .map(|one| one.name)
        .collect();
    let problem = match first.verdict.success() {
        false => Some("the first command inside failed".to_owned()),
        true if missing.is_empty() => None,
        true => Some(format!("these do not hold: {}", missing.join(", "))),
    };
    Ok(Diagnosis {
        backend,
        strength: backend.strength(),
        works: problem.is_none(),
        problem,
        hint: None,
        protections,
        limits,
        start: Some(start),
        exec: Some(exec),
        memory,
        is_emulated: info.is_emulated,
        notes: components(&info),
        walls: info.walls,
    })
}
