//! The environment of one test: a cache, an image, a workspace, programs, and simulated machines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Arc, MutexGuard};

use sandbox::{Backend, BackendConfig, ExecCommand, RootSpec, Sandbox, SandboxSpec};
use tempfile::TempDir;

use crate::error_chain::error_chain;
use crate::machine::{MachineEvents, SimulatedMachines};

pub(crate) struct Fixture {
    place: TempDir,
    machines: Option<SimulatedMachines>,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let mut scene = Self::idle();
        let (cache, workspace) = (scene.path("cache"), scene.path("workspace"));
        scene.machines = Some(SimulatedMachines::start(&cache, &workspace));
        scene
    }

    /// Without machines of its own.
    pub(crate) fn idle() -> Self {
        let place = tempfile::tempdir().unwrap();
        for folder in ["cache", "image/etc", "workspace", "bin"] {
            fs::create_dir_all(place.path().join(folder)).unwrap();
        }
        fs::write(place.path().join("image/etc/hello"), "hello").unwrap();
        // Real Firecracker would need a valid kernel.
        fs::write(place.path().join("kernel"), b"\x7fELF and nothing else").unwrap();
        copy_program(&stand_in(), &place.path().join("bin/jailer"));
        Self {
            place,
            machines: None,
        }
    }

    pub(crate) fn machine_events(&self) -> MutexGuard<'_, MachineEvents> {
        self.machines.as_ref().unwrap().machine_events()
    }

    pub(crate) fn place(&self) -> &Path {
        self.place.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// A spec with a Firecracker whose name determines its behaviour.
    pub(crate) fn spec(&self, firecracker: &str) -> SandboxSpec {
        spec(self.place.path(), firecracker)
    }

    pub(crate) async fn start(&self) -> Sandbox {
        let started = Sandbox::start(self.spec("firecracker")).await;
        started.unwrap_or_else(|error| panic!("{}", error_chain(&error)))
    }

    /// Leftovers in the cache of machines that ran.
    pub(crate) fn leftovers(&self) -> Vec<PathBuf> {
        let mut found = entries(&self.path("cache/firecracker/rooms"));
        for program in entries(&self.path("cache/firecracker/jails")) {
            found.extend(entries(&program));
        }
        found
    }

    /// The snapshots in the cache.
    pub(crate) fn snapshots(&self) -> Vec<PathBuf> {
        entries(&self.path("cache/firecracker/snapshots"))
    }

    /// Processes that run, or were started with, a program of this folder.
    pub(crate) fn processes(&self) -> Vec<String> {
        let place = self.place.path().to_str().unwrap();
        let own = std::process::id().to_string();
        let line = |folder: &Path| {
            let program = fs::read_link(folder.join("exe")).unwrap_or_default();
            let arguments = fs::read_to_string(folder.join("cmdline")).unwrap_or_default();
            format!("{} {}", program.display(), arguments.replace('\0', " "))
        };
        let all = entries(Path::new("/proc"));
        let others = all.iter().filter(|folder| !folder.ends_with(&own));
        others
            .map(|folder| line(folder))
            .filter(|line| line.contains(place))
            .collect()
    }
}

pub(crate) fn spec(place: &Path, firecracker: &str) -> SandboxSpec {
    let program = place.join("bin").join(firecracker);
    if firecracker != "nowhere" && !program.exists() {
        copy_program(&stand_in(), &program);
    }
    let mut provisions = BackendConfig {
        cache: place.join("cache"),
        ..BackendConfig::default()
    };
    provisions.machines.firecracker = program;
    provisions.machines.jailer = place.join("bin/jailer");
    provisions.machines.kernel = Some(place.join("kernel"));
    provisions.machines.kvm = "/dev/null".into();
    SandboxSpec {
        backend: Backend::Firecracker,
        root: RootSpec::Image(place.join("image")),
        provisions: Arc::new(provisions),
        ..SandboxSpec::new(place.join("workspace"))
    }
}

pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Built by the same cargo run, in a folder next to this test.
fn stand_in() -> PathBuf {
    let this = std::env::current_exe().unwrap();
    let program = this
        .ancestors()
        .nth(2)
        .unwrap()
        .join("examples/firecracker");
    assert!(
        program.exists(),
        "cannot find `{}`; hint: cargo build -p sandbox --examples",
        program.display()
    );
    program
}

pub(crate) async fn say(sandbox: &Sandbox, script: &str) -> String {
    let ran = sandbox
        .run(ExecCommand::new(["/bin/sh", "-c", script]))
        .await;
    let ran = ran.unwrap();
    assert!(ran.verdict.success(), "{ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Copies a program that will be executed at once. Uses another process: while this one has the
/// file open for writing, another thread may fork and inherit the descriptor, and executing it
/// would fail.
fn copy_program(from: &Path, to: &Path) {
    let copied = process::Command::new("cp").args([from, to]).status();
    assert!(copied.unwrap().success(), "{}", to.display());
}
