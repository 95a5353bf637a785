//! What protects a sandbox on this machine, proved by starting one and asking the kernel.

use std::fs;
use std::time::{Duration, Instant};

use link::request::Walls;
use serde::Serialize;

use crate::error::SandboxError;
use crate::exec::Command;
use crate::handle::Sandbox;
use crate::limits::Enforcement;
use crate::spec::{Backend, SandboxSpec};

/// What was found out about one backend.
#[derive(Debug, Serialize)]
pub struct Diagnosis {
    pub backend: &'static str,
    pub works: bool,
    /// Why it does not, and how to make it.
    pub problem: Option<String>,
    pub hint: Option<String>,
    pub protections: Vec<Protection>,
    pub limits: Vec<Enforcement>,
    /// From nothing to the end of a first command.
    pub start: Option<Duration>,
    /// A further command.
    pub exec: Option<Duration>,
}

/// One protection, and whether it was seen to hold.
#[derive(Debug, Serialize)]
pub struct Protection {
    pub name: &'static str,
    pub holds: bool,
    pub evidence: String,
}

/// Starts a sandbox as the spec says and looks at it from inside.
pub async fn examine(spec: SandboxSpec) -> Diagnosis {
    let backend = match spec.backend {
        Backend::Auto | Backend::Native => "native",
        Backend::None => "none",
    };
    match look(spec).await {
        Ok(diagnosis) => diagnosis,
        Err(error) => Diagnosis {
            backend,
            works: false,
            problem: Some(chain(&error)),
            hint: error.hint(),
            protections: Vec::new(),
            limits: Vec::new(),
            start: None,
            exec: None,
        },
    }
}

async fn look(spec: SandboxSpec) -> Result<Diagnosis, SandboxError> {
    let began = Instant::now();
    let sandbox = Sandbox::start(spec).await?;
    let first = sandbox.run(Command::new(["/bin/true"])).await?;
    let start = began.elapsed();
    let began = Instant::now();
    sandbox.run(Command::new(["/bin/true"])).await?;
    let exec = began.elapsed();
    let walls = sandbox.inspect().await?;
    let description = sandbox.description().clone();
    let mut protections = protections(&walls);
    let landlock = description
        .walls
        .iter()
        .find(|wall| wall.starts_with("Landlock"));
    protections.push(Protection {
        name: "Landlock",
        holds: landlock.is_some(),
        evidence: landlock
            .cloned()
            .unwrap_or_else(|| "this kernel has none".into()),
    });
    sandbox.end().await;
    Ok(Diagnosis {
        backend: description.backend,
        works: first.verdict.success()
            && protections.iter().all(|p| p.holds || p.name == "Landlock"),
        problem: None,
        hint: None,
        protections,
        limits: description.limits,
        start: Some(start),
        exec: Some(exec),
    })
}

/// Judges what the kernel says inside against what it says here.
fn protections(walls: &Walls) -> Vec<Protection> {
    let mut all = Vec::new();
    let mut add = |name, holds, evidence: String| {
        all.push(Protection {
            name,
            holds,
            evidence,
        })
    };
    for (kind, name) in [
        ("user", "user namespace"),
        ("mnt", "mount namespace"),
        ("pid", "pid namespace"),
        ("net", "network namespace"),
        ("ipc", "ipc namespace"),
        ("uts", "host name namespace"),
        ("cgroup", "cgroup namespace"),
    ] {
        let inside = walls
            .namespaces
            .iter()
            .find(|(key, _)| key == kind)
            .map(|(_, id)| id.clone());
        let here = fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        let here = here.map(|link| link.to_string_lossy().into_owned());
        let holds = inside.is_some() && here.is_some() && inside != here;
        add(name, holds, inside.unwrap_or_else(|| "unknown".into()));
    }
    add(
        "ordinary user",
        walls.uid != 0,
        format!("uid {}, gid {}", walls.uid, walls.gid),
    );
    let capabilities = format!("{:#x}", walls.capabilities);
    add("no capabilities", walls.capabilities == 0, capabilities);
    add(
        "no new privileges",
        walls.no_new_privileges,
        walls.no_new_privileges.to_string(),
    );
    add(
        "seccomp filter",
        walls.seccomp == 2,
        format!("mode {}", walls.seccomp),
    );
    let only_loopback = walls.interfaces.iter().all(|name| name == "lo");
    add("no network", only_loopback, walls.interfaces.join(", "));
    add(
        "read-only root",
        walls.root_read_only,
        walls.root_read_only.to_string(),
    );
    all
}

/// An error and its causes on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}
