//! microsandbox: a virtual machine of `msb` (libkrun), for laptops.
//!
//! `msb run` holds the machine and ends when its standard input closes. This process holds that
//! input, so the machine ends with it, even after a crash. `msb exec --stream` is the link. The
//! next start removes what a crash left on disk. The guest is not process 1 there: a command that
//! kills all processes of its user kills the guest, and with it the sandbox. `msb` never sees the
//! caller's environment or a writable image. Entry point: [`start_backend`].

mod arguments;
mod machine_root;
mod msb;
mod running;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use protocol::Backend;
use tokio::net::UnixStream;
use tokio::task::spawn_blocking;
use tracing::debug;
use walls::cgroups::{group_name, is_abandoned};
use walls::plan::{Confinement, LandlockStatus, Resource, Rlimit};

use self::arguments::MsbMachine;
use self::machine_root::MachineRoot;
use self::msb::{Msb, MsbError};
use self::running::MicrosandboxMachine;
use super::confined_guest::{confine, own_folder};
use super::machine::kvm;
use super::native::wall_plan::GUEST_PIDS;
use super::root_entries::writable;
use super::{StartedBackend, check_strict, wall_descriptions};
use crate::error::SandboxError;
use crate::limits::{LimitEnforcement, LimitEnforcer, LimitKind, SandboxLimits, bytes};
use crate::spec::SandboxSpec;

/// Shown by `doctor`.
pub(crate) const UNTESTED_NOTE: &str = "written against `msb` 0.7: its calls, its answers and the link \
     over its streams are tested, a machine of it has not run on real KVM";

/// A machine boots in well under a second if virtualization works. If it does not, `msb` notices
/// within 15 seconds.
const START_TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let host = std::thread::available_parallelism().map_or(1, usize::from);
    let limits = msb_enforcement(&spec.limits, host);
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let program = &spec.provisions.machines.microsandbox;
    let msb = Msb::new(program, &spec.provisions.cache).map_err(failed("make a folder"))?;
    let version = blocking({
        let msb = msb.clone();
        move || msb.version()
    })
    .await?
    .map_err(version_error)?;
    kvm::check(&spec.provisions.machines.kvm, Backend::Microsandbox)?;
    let workspace = workspace(spec)?;
    let (mut standing, skeleton) = blocking({
        let (msb, spec) = (msb.clone(), spec.clone());
        move || prepare(msb, &spec, &workspace)
    })
    .await?
    .map_err(failed("make the root"))?;
    let machine = MsbMachine {
        name: &standing.name.clone(),
        root: &skeleton.root,
        mounts: &skeleton.mounts,
        limits: &spec.limits,
        processors: host,
    };
    let started = match arguments::unsupported_path(&skeleton.mounts) {
        Some(path) => Err(unavailable(
            format!("`msb` takes no folder like `{}`", path.display()),
            Some("use a path without colons and commas"),
        )),
        None => start(&mut standing, &machine, spec).await,
    };
    match started {
        Ok((link, landlock)) => Ok(StartedBackend::usual(
            Backend::Microsandbox,
            link,
            Box::new(standing),
            describe(&version, landlock),
            limits,
        )
        .with_landlock(landlock)),
        Err(error) => {
            super::RunningWalls::take_down(&mut standing).await;
            Err(error)
        }
    }
}

fn workspace(spec: &SandboxSpec) -> Result<PathBuf, SandboxError> {
    spec.real_workspace()
        .map_err(|source| SandboxError::Workspace {
            path: spec.workspace.clone(),
            source,
        })
}

/// Removes leftovers of crashes, and makes the folders of a new sandbox.
fn prepare(
    msb: Msb,
    spec: &SandboxSpec,
    workspace: &Path,
) -> io::Result<(MicrosandboxMachine, MachineRoot)> {
    static SWEPT: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let place = own_folder(&spec.provisions.cache.join("microsandbox"))?;
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if !swept.contains(&place) {
        remove_stale(&msb, &place);
        swept.push(place.clone());
    }
    drop(swept);
    let name = group_name(NUMBER.fetch_add(1, Ordering::Relaxed))
        .ok_or_else(|| io::Error::other("`/proc` does not say who this process is"))?;
    let folder = place.join(&name);
    fs::create_dir(&folder)?;
    let skeleton = MachineRoot::make(spec, &folder, workspace);
    let standing = MicrosandboxMachine::new(msb, name, folder);
    Ok((standing, skeleton?))
}

fn remove_stale(msb: &Msb, place: &Path) {
    for listed in msb.list().unwrap_or_default() {
        if is_abandoned(&listed.name) {
            debug!(name = listed.name, status = ?listed.status, "sweeping a machine");
            let _ = msb.remove(&listed.name);
        }
    }
    for entry in fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_name().to_str().is_some_and(is_abandoned) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

async fn start(
    standing: &mut MicrosandboxMachine,
    machine: &MsbMachine<'_>,
    spec: &SandboxSpec,
) -> Result<(UnixStream, Option<LandlockStatus>), SandboxError> {
    let parts = standing
        .parts
        .as_mut()
        .expect("a new machine has its parts");
    parts.hold(machine).map_err(failed("start `msb`"))?;
    parts.boot(machine.name).await?;
    let mut link = parts.stream(machine).map_err(failed("start `msb`"))?;
    let confined =
        tokio::time::timeout(START_TIMEOUT, confine(&mut link, &confinement(spec))).await;
    match confined {
        Ok(Ok(landlock)) => Ok((link, landlock)),
        Ok(Err(error)) => match parts.stream_ended() {
            Some(words) => Err(unavailable(
                format!("`msb` started no guest: {words}"),
                None,
            )),
            None => Err(failed("confine the guest")(error)),
        },
        Err(_) => Err(unavailable("no guest answers in `msb`", None)),
    }
}

/// The confinement that the guest applies to itself. The machine limits memory.
fn confinement(spec: &SandboxSpec) -> Confinement {
    let limits = &spec.limits;
    let limit = |resource, value| Rlimit { resource, value };
    Confinement {
        rlimits: vec![
            limit(Resource::Core, 1),
            limit(Resource::FileSize, limits.disk),
            limit(Resource::LockedMemory, 64 << 20),
            limit(Resource::MessageQueues, 1 << 20),
            limit(Resource::OpenFiles, limits.open_files),
            limit(Resource::Processes, u64::from(limits.pids + GUEST_PIDS)),
        ],
        processors: None,
        writable: writable(&crate::spec::RootSpec::Host),
        user: None,
        is_gvisor: false,
    }
}

fn describe(version: &str, landlock: Option<LandlockStatus>) -> Vec<String> {
    let mut walls = vec![
        format!("virtual machine (KVM, {version})"),
        "network closed by `msb`".to_owned(),
        "root of its own, programs read-only".to_owned(),
        wall_descriptions::UNPRIVILEGED.to_owned(),
        wall_descriptions::SECCOMP.to_owned(),
    ];
    walls.extend(wall_descriptions::landlock(landlock));
    walls
}

/// The enforcer of each limit in a machine of `msb`.
fn msb_enforcement(limits: &SandboxLimits, host: usize) -> Vec<LimitEnforcement> {
    let one = |limit, value: String, enforcer, caveat: Option<&str>| LimitEnforcement {
        limit,
        value,
        enforcer,
        caveat: caveat.map(str::to_owned),
    };
    let is_whole = limits.cpus.fract() == 0.0 || limits.cpus >= host as f64;
    let fraction = (!is_whole).then_some("whole processors only");
    let wall = limits
        .wall
        .map_or("none set".to_owned(), |wall| format!("{wall:?}"));
    let output = limits.output.map_or("none set".to_owned(), bytes);
    vec![
        one(
            LimitKind::Memory,
            bytes(limits.memory),
            LimitEnforcer::Vm,
            None,
        ),
        one(
            LimitKind::Cpu,
            limits.cpus.to_string(),
            LimitEnforcer::Vm,
            fraction,
        ),
        one(
            LimitKind::Pids,
            limits.pids.to_string(),
            LimitEnforcer::Rlimit,
            None,
        ),
        one(
            LimitKind::Disk,
            bytes(limits.disk),
            LimitEnforcer::Scan,
            None,
        ),
        one(
            LimitKind::OpenFiles,
            limits.open_files.to_string(),
            LimitEnforcer::Rlimit,
            None,
        ),
        one(
            LimitKind::WallTime,
            wall,
            LimitEnforcer::GuestAndSupervisor,
            None,
        ),
        one(LimitKind::Output, output, LimitEnforcer::Guest, None),
    ]
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, SandboxError> {
    let done = spawn_blocking(work).await;
    done.map_err(|error| failed("wait for `msb`")(io::Error::other(error)))
}

fn version_error(error: MsbError) -> SandboxError {
    const INSTALL: &str = "`pip install microsandbox` brings it";
    match error {
        MsbError::Run(error) if error.kind() == io::ErrorKind::NotFound => {
            unavailable("`msb` is not installed", Some(INSTALL))
        }
        error => failed("ask `msb` for its release")(error),
    }
}

fn unavailable(reason: impl Into<String>, advice: Option<&str>) -> SandboxError {
    SandboxError::Unavailable {
        backend: Backend::Microsandbox,
        reason: reason.into(),
        advice: advice.map(str::to_owned),
    }
}

fn failed<E>(doing: &str) -> impl FnOnce(E) -> SandboxError
where
    E: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let doing = doing.to_owned();
    move |source| SandboxError::Backend {
        backend: Backend::Microsandbox,
        doing,
        source: source.into(),
    }
}
