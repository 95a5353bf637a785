//! What protects a sandbox on this machine, proved by starting one and asking its kernel.
//!
//! [`examine`] looks at one backend, [`probe`] does so under a deadline and keeps the verdict,
//! [`known`] and [`would_take`] say what follows from verdicts that are kept.

mod memory;
mod protections;

use std::time::{Duration, Instant};

use serde::Serialize;

use self::memory::Processes;
pub use self::protections::Protection;
use self::protections::{Seen, is_needed, protections};
use crate::backends::{self, firecracker, microsandbox};
use crate::choosing::{self, Choice, Question};
use crate::error::SandboxError;
use crate::exec::Command;
use crate::handle::Sandbox;
use crate::limits::{Enforcement, Limits};
use crate::proofs::{Proof, Proofs};
use crate::provisions::Provisions;
use crate::spec::{Backend, RootSpec, SandboxSpec, Strength};

pub use crate::choosing::ORDER;

/// What was found out about one backend.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    pub backend: &'static str,
    pub strength: Strength,
    pub works: bool,
    /// Why it does not, and how to make it.
    pub problem: Option<String>,
    pub hint: Option<String>,
    /// The walls, each in a few words.
    pub walls: Vec<String>,
    pub protections: Vec<Protection>,
    pub limits: Vec<Enforcement>,
    /// From nothing to the end of a first command.
    pub start: Option<Duration>,
    /// A further command.
    pub exec: Option<Duration>,
    /// Bytes of the host's memory that an idle sandbox takes up, where its processes can be seen.
    pub memory: Option<u64>,
    /// Whether its machine is made of software.
    pub is_emulated: bool,
    /// What it is made of here, in a few words each.
    pub notes: Vec<String>,
}

impl Diagnosis {
    fn failed(backend: Backend, problem: String, hint: Option<String>) -> Self {
        Self {
            backend: backend.name(),
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

    fn proof(&self, backend: Backend) -> Proof {
        let milliseconds = |time: Option<Duration>| time.map(|time| time.as_secs_f64() * 1e3);
        Proof {
            works: self.works,
            is_emulated: self.is_emulated,
            problem: self.problem.clone(),
            hint: self.hint.clone(),
            notes: self.notes.clone(),
            start_ms: milliseconds(self.start),
            exec_ms: milliseconds(self.exec),
            memory: self.memory,
            ..Proof::of(backend)
        }
    }
}

/// What of a backend has never been run on real hardware by those who made it.
pub fn unproven(backend: Backend) -> Option<&'static str> {
    match backend {
        Backend::Firecracker => Some(firecracker::UNPROVEN),
        Backend::Microsandbox => Some(microsandbox::UNPROVEN),
        _ => None,
    }
}

/// Starts a sandbox as the spec says and looks at it from inside. `Auto` is looked at as `Native`.
pub async fn examine(mut spec: SandboxSpec) -> Diagnosis {
    if spec.backend == Backend::Auto {
        spec.backend = Backend::Native;
    }
    let backend = spec.backend;
    match look(spec).await {
        Ok(diagnosis) => diagnosis,
        Err(error) => Diagnosis::failed(backend, chain(&error), error.hint()),
    }
}

/// Examines one backend with a spec that may name another, and keeps the verdict.
pub async fn probe(spec: &SandboxSpec, backend: Backend) -> Diagnosis {
    let spec = of_backend(spec, backend);
    if backend.needs_image() && !has_image(&spec) {
        // Nothing about the machine was found out, so nothing is kept.
        let error = backends::lacks_image(backend);
        return Diagnosis::failed(backend, error.to_string(), error.hint());
    }
    let provisions = spec.provisions.clone();
    let diagnosis = in_time(spec).await;
    let kept = Proofs::read(&provisions).keep(diagnosis.proof(backend), &provisions);
    if let Err(error) = kept {
        tracing::warn!(%backend, %error, "cannot keep a verdict");
    }
    diagnosis
}

/// The same, for whoever keeps verdicts.
pub(crate) async fn prove(spec: &SandboxSpec, backend: Backend) -> Proof {
    in_time(of_backend(spec, backend)).await.proof(backend)
}

/// A spec that asks for nothing but this backend.
fn of_backend(spec: &SandboxSpec, backend: Backend) -> SandboxSpec {
    SandboxSpec {
        // What is found out is kept: it must not depend on the time limit of one sandbox.
        limits: Limits {
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

async fn in_time(spec: SandboxSpec) -> Diagnosis {
    let backend = spec.backend;
    let deadline = deadline(backend);
    let look = async {
        let first = examine(spec.clone()).await;
        if first.works && backend.strength() == Strength::Vm {
            // That boot made the disk and the snapshot; those that follow are what people get.
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

/// A machine's first boot may have to make its disk and its snapshot.
fn deadline(backend: Backend) -> Duration {
    match backend.strength() {
        Strength::Vm => Duration::from_secs(180),
        _ => Duration::from_secs(60),
    }
}

/// Verdicts that are kept and still hold.
pub fn known(provisions: &Provisions) -> Vec<Proof> {
    Proofs::read(provisions).all().to_vec()
}

/// What `auto` would start for this spec, as far as that is known without starting anything.
pub fn would_take(spec: &SandboxSpec) -> Result<Choice, SandboxError> {
    choice(spec, &Proofs::read(&spec.provisions))
}

/// The same, after a look at whatever is required and was not known. Needs a workspace.
pub async fn settle(spec: &SandboxSpec) -> Result<Choice, SandboxError> {
    choice(spec, &backends::settle(spec).await)
}

fn choice(spec: &SandboxSpec, proofs: &Proofs) -> Result<Choice, SandboxError> {
    let question = Question {
        require: spec.require,
        has_image: has_image(spec),
        proofs: proofs.all(),
    };
    let choices = choosing::choose(&question)?;
    let first = choices.into_iter().next();
    Ok(first.expect("a choice is never empty"))
}

pub(crate) fn has_image(spec: &SandboxSpec) -> bool {
    matches!(spec.root, RootSpec::Image(_)) || spec.provisions.default_image.is_some()
}

async fn look(spec: SandboxSpec) -> Result<Diagnosis, SandboxError> {
    let backend = spec.backend;
    let before = Processes::now();
    let began = Instant::now();
    let sandbox = Sandbox::start(spec).await?;
    let first = sandbox.run(Command::new(["/bin/true"])).await?;
    let start = began.elapsed();
    let began = Instant::now();
    sandbox.run(Command::new(["/bin/true"])).await?;
    let exec = began.elapsed();
    let seen = Seen::look(&sandbox).await?;
    let description = sandbox.description().clone();
    let memory = memory::of_sandbox(&before, backend, &seen.walls);
    let mut protections = protections(backend, sandbox.root(), &seen);
    let landlock = description
        .walls
        .iter()
        // Those of a machine stand inside it.
        .find(|wall| wall.trim_start_matches("inside: ").starts_with("Landlock"));
    protections.push(Protection {
        name: "Landlock",
        holds: landlock.is_some(),
        evidence: landlock
            .cloned()
            .unwrap_or_else(|| "this kernel has none".into()),
    });
    sandbox.end().await;
    let missing: Vec<&str> = protections
        .iter()
        .filter(|one| !one.holds && is_needed(backend, one.name))
        .map(|one| one.name)
        .collect();
    let problem = match first.verdict.success() {
        false => Some("a first command failed inside".to_owned()),
        true if missing.is_empty() => None,
        true => Some(format!("these do not hold: {}", missing.join(", "))),
    };
    Ok(Diagnosis {
        backend: description.backend,
        strength: backend.strength(),
        works: problem.is_none(),
        problem,
        hint: None,
        protections,
        limits: description.limits.clone(),
        start: Some(start),
        exec: Some(exec),
        memory,
        is_emulated: description.is_emulated(),
        notes: description.notes(),
        walls: description.walls,
    })
}

/// An error and its causes on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
