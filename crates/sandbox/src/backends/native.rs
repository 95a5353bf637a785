//! Native walls: plans them, starts the supervisor and reads its reports.

mod diagnosis;
pub(super) mod wall_plan;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use link::suspend_tolerant_timeout;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use protocol::Backend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tracing::warn;
use walls::cgroups::{self, AvailableControllers};
use walls::plan::{
    self, LandlockStatus, SetupFailure, SetupStage, SupervisorReport, SupervisorRequest, WallsPlan,
};

use self::wall_plan::{HostFacts, Ownership};
use super::{BoxFuture, StartedBackend, check_strict, child, wall_descriptions};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::native_enforcement;
use crate::spec::{RootSpec, SandboxSpec};
use crate::start_progress;

/// The supervisor of one sandbox. Dropping it ends the sandbox.
#[derive(Debug)]
pub(crate) struct NativeWalls {
    supervisor: Option<Child>,
    control: Option<UnixStream>,
    memory_counter: Option<PathBuf>,
    /// The control groups. The supervisor removes them unless it was killed.
    groups: Vec<PathBuf>,
}

/// How long a supervisor may take to report the end of a sandbox.
const REPORT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a supervisor may take to exit after its control socket is closed.
const SUPERVISOR_TIMEOUT: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// How long a start waits for the removal of stale control groups that other processes left.
const SWEEP_TIMEOUT: Duration = Duration::from_secs(2);

pub(crate) async fn start_backend(spec: &SandboxSpec) -> Result<StartedBackend, SandboxError> {
    let facts = gather_facts(spec)?;
    let limits = native_enforcement(&spec.limits, &facts.groups, facts.processors.len());
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let (standing, link, landlock) = start_walls(spec, &facts, |_| {}, None).await?;
    Ok(StartedBackend::usual(
        Backend::Native,
        link,
        Box::new(standing),
        describe(&spec.root, landlock),
        limits,
    )
    .with_landlock(landlock))
}

/// Sets up walls for the spec. `adapt` first changes the plan for a program other than the guest that is to
/// run behind the walls. That program can report on `errors` why it did not start.
pub(super) async fn start_walls(
    spec: &SandboxSpec,
    facts: &HostFacts,
    adapt: impl Fn(&mut WallsPlan),
    errors: Option<OwnedFd>,
) -> Result<(NativeWalls, UnixStream, Option<LandlockStatus>), SandboxError> {
    let plan = |ownership| {
        let mut plan = wall_plan::plan(spec, facts, ownership);
        adapt(&mut plan);
        plan
    };
    let ownership = if facts.is_host_root {
        Ownership::Mapped
    } else {
        Ownership::Caller
    };
    match start(&plan(ownership), errors.as_ref()).await {
        // The file system cannot map owners: run as the owner, unless the owner is root.
        Err(SupervisorError::Failed(failure)) if is_unmappable(&failure, facts) => {
            start(&plan(Ownership::Owner), errors.as_ref()).await
        }
        outcome => outcome,
    }
    .map_err(|error| match error {
        SupervisorError::Launch(error) => SandboxError::Launch(error),
        SupervisorError::Failed(source) => SandboxError::Walls {
            advice: diagnosis::advise(&source, &diagnosis::NamespaceSettings::read(), facts),
            source,
        },
    })
}

fn is_unmappable(failure: &SetupFailure, facts: &HostFacts) -> bool {
    failure.stage == SetupStage::Mounts
        && failure.step.starts_with("map the owner")
        && facts.workspace_owner.0 != 0
}

pub(super) fn describe(root: &RootSpec, landlock: Option<LandlockStatus>) -> Vec<String> {
    let mut walls: Vec<String> = [
        "user, mount, pid, network, ipc, uts and cgroup namespaces",
        wall_descriptions::root(root),
        wall_descriptions::UNPRIVILEGED,
        wall_descriptions::SECCOMP,
    ]
    .map(str::to_owned)
    .into();
    walls.extend(wall_descriptions::landlock(landlock));
    walls
}

pub(super) fn gather_facts(spec: &SandboxSpec) -> Result<HostFacts, SandboxError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let uid = nix::unistd::geteuid().as_raw();
    let workspace_owner =
        folder_owner(&spec.workspace).map_err(|source| SandboxError::Workspace {
            path: spec.workspace.clone(),
            source,
        })?;
    let image_owner = match &spec.root {
        RootSpec::Host => None,
        RootSpec::Image(image) => {
            Some(folder_owner(image).map_err(|source| SandboxError::Image {
                path: image.clone(),
                source,
            })?)
        }
    };
    Ok(HostFacts {
        uid,
        gid: nix::unistd::getegid().as_raw(),
        is_host_root: uid == 0 && is_initial_user_namespace(),
        workspace_owner,
        image_owner,
        groups: AvailableControllers::detect(),
        group_name: cgroups::group_name(u64::from(number)),
        processors: processors(),
        // Includes the PID, because sandboxes of different host processes must differ too.
        number: (std::process::id() << 10).wrapping_add(number),
    })
}

fn folder_owner(folder: &Path) -> io::Result<(u32, u32)> {
    let metadata = fs::metadata(folder)?;
    if metadata.is_dir() {
        Ok((metadata.uid(), metadata.gid()))
    } else {
        Err(io::ErrorKind::NotADirectory.into())
    }
}

/// Whether this is the machine's initial user namespace, in which user 0 is the real root.
pub(crate) fn is_initial_user_namespace() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn processors() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count())
        .filter(|number| set.is_set(*number).unwrap_or(false))
        .collect()
}

enum SupervisorError {
    Launch(io::Error),
    Failed(SetupFailure),
}

impl From<io::Error> for SupervisorError {
    fn from(error: io::Error) -> Self {
        Self::Launch(error)
    }
}

/// A supervisor that is waiting for its plan.
#[derive(Debug)]
struct WaitingSupervisor {
    supervisor: Child,
    control: std::os::unix::net::UnixStream,
    link: std::os::unix::net::UnixStream,
}

impl WaitingSupervisor {
    fn spawn(errors: Option<&OwnedFd>) -> io::Result<Self> {
        let errors = errors.map(OwnedFd::try_clone).transpose()?;
        let (link, guests_link) = std::os::unix::net::UnixStream::pair()?;
        let (control, supervisors_control) = std::os::unix::net::UnixStream::pair()?;
        let supervisor = guest_program::command("walls")?
            .stdin(Stdio::from(OwnedFd::from(guests_link)))
            .stdout(Stdio::from(OwnedFd::from(supervisors_control)))
            .stderr(errors.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        Ok(Self {
            supervisor,
            control,
            link,
        })
    }
}

/// A supervisor that was started before it is needed.
static SPARE_SUPERVISOR: Mutex<Option<WaitingSupervisor>> = Mutex::new(None);

/// Starts a supervisor before it is needed, unless one is already waiting. It ends with this process.
pub(crate) fn prewarm() {
    let mut spare = SPARE_SUPERVISOR
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    if spare.is_none() {
        *spare = WaitingSupervisor::spawn(None).ok();
    }
}

async fn start(
    plan: &WallsPlan,
    errors: Option<&OwnedFd>,
) -> Result<(NativeWalls, UnixStream, Option<LandlockStatus>), SupervisorError> {
    let spare = match errors {
        Some(_) => None,
        None => SPARE_SUPERVISOR
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take(),
    };
    let WaitingSupervisor {
        supervisor,
        control,
        link,
    } = spare.map_or_else(|| WaitingSupervisor::spawn(errors), Ok)?;
    plan::send(&control, plan)?;
    // Remove control groups left by a crash while the supervisor works.
    static SWEPT: AtomicBool = AtomicBool::new(false);
    let is_first = !SWEPT.swap(true, Ordering::Relaxed);
    let swept = is_first.then(|| child::run_on_thread(cgroups::remove_stale_groups));
    control.set_nonblocking(true)?;
    link.set_nonblocking(true)?;
    let counter = plan.groups.iter().find_map(|group| {
        let file = group.oom_kill_file.as_ref()?;
        Some(group.folder.join(file))
    });
    let mut standing = NativeWalls {
        supervisor: Some(supervisor),
        control: Some(UnixStream::from_std(control)?),
        memory_counter: counter,
        groups: plan
            .groups
            .iter()
            .map(|group| group.folder.clone())
            .collect(),
    };
    start_progress::step("hear from the supervisor of the native walls");
    let report = standing.report();
    let report = match swept {
        // The timeout keeps a removal that is stuck in the kernel from delaying the start.
        Some(swept) => {
            let swept = tokio::time::timeout(SWEEP_TIMEOUT, swept);
            tokio::join!(report, swept).0?
        }
        None => report.await?,
    };
    match report {
        SupervisorReport::Ready { landlock } => {
            Ok((standing, UnixStream::from_std(link)?, landlock))
        }
        SupervisorReport::Failed(failure) => Err(SupervisorError::Failed(failure)),
        SupervisorReport::OomKills { .. } | SupervisorReport::Ended { .. } => {
            Err(SupervisorError::Launch(io::ErrorKind::UnexpectedEof.into()))
        }
    }
}

impl NativeWalls {
    /// Makes the supervisor end the sandbox after `deadline`, counted from now, instead of at the plan's
    /// deadline.
    pub(super) async fn set_deadline(&mut self, deadline: Duration) -> io::Result<()> {
        let control = self.control.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut message = Vec::new();
        plan::send(&mut message, &SupervisorRequest::SetDeadline(deadline))?;
        control.write_all(&message).await
    }

    async fn report(&mut self) -> io::Result<SupervisorReport> {
        let control = self.control.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = control.read_u32_le().await?;
        if length > plan::MAX_MESSAGE_BYTES {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut encoded = vec![0; length as usize];
        control.read_exact(&mut encoded).await?;
        let framed = [&length.to_le_bytes()[..], &encoded].concat();
        plan::receive(&framed[..])
    }
}

impl super::RunningWalls for NativeWalls {
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            // Shuts down only the writing half: the supervisor sees the end and can still report.
            if let Some(control) = &mut self.control {
                let _ = tokio::io::AsyncWriteExt::shutdown(control).await;
            }
            let reported = suspend_tolerant_timeout(REPORT_TIMEOUT, self.report()).await;
            self.control = None;
            let Some(mut supervisor) = self.supervisor.take() else {
                return 0;
            };
            if let Ok(Ok(SupervisorReport::Ended {
                out_of_memory_kills,
            })) = reported
            {
                // `Ended` is the supervisor's last report. It exits now.
                if child::wait_with_timeout(&mut supervisor, SUPERVISOR_TIMEOUT) {
                    return out_of_memory_kills;
                }
            }
            warn!(
                ?reported,
                "the supervisor of a sandbox did not report its end"
            );
            let groups = std::mem::take(&mut self.groups);
            child::run_on_thread(move || finish_off(supervisor, &groups)).await;
            0
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        let text = self
            .memory_counter
            .as_ref()
            .and_then(|file| fs::read_to_string(file).ok());
        let kills = text.as_deref().and_then(cgroups::parse_oom_kills);
        Box::pin(std::future::ready(kills.unwrap_or(0)))
    }
}

impl Drop for NativeWalls {
    fn drop(&mut self) {
        self.control = None;
        if let Some(supervisor) = self.supervisor.take() {
            let groups = std::mem::take(&mut self.groups);
            start_progress::take_down_on_thread(move || finish_off(supervisor, &groups));
        }
    }
}

/// Waits for a supervisor, which exits by itself after its control socket is closed. A stuck supervisor is
/// killed, which also kills process 1. Then removes the control groups if they still exist.
fn finish_off(mut supervisor: Child, groups: &[PathBuf]) {
    if !child::wait_or_kill(&mut supervisor, SUPERVISOR_TIMEOUT) {
        let pid = supervisor.id();
        warn!(pid, "the supervisor of a sandbox cannot be killed");
        return;
    }
    for folder in groups {
        cgroups::kill_and_remove(folder);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::process::Command;

    use super::*;
    use crate::handle::Sandbox;

    /// A supervisor that accepts its plan and then does nothing.
    fn stuck_supervisor() -> WaitingSupervisor {
        let (control, supervisors_control) = std::os::unix::net::UnixStream::pair().unwrap();
        let (link, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let supervisor = Command::new("sleep")
            .arg("1000")
            .stdout(Stdio::from(OwnedFd::from(supervisors_control)))
            .spawn()
            .unwrap();
        WaitingSupervisor {
            supervisor,
            control,
            link,
        }
    }

    #[tokio::test]
    async fn a_start_whose_supervisor_is_stuck_ends_in_time_and_leaves_nothing() {
        let waiting = stuck_supervisor();
        let pid = waiting.supervisor.id();
        *SPARE_SUPERVISOR.lock().unwrap() = Some(waiting);
        let folder = tempfile::tempdir().unwrap();
        let mut spec = SandboxSpec::new(folder.path());
        spec.backend = Backend::Native;
        spec.limits.wall = Some(Duration::from_millis(300));
        let error = Sandbox::start(spec).await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains("within 300ms"), "{said}");
        assert!(said.contains("hear from the supervisor"), "{said}");
        // Killed and reaped.
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }

    #[tokio::test]
    async fn the_end_of_a_sandbox_does_not_wait_for_a_supervisor_that_was_killed() {
        let mut waiting = stuck_supervisor();
        let pid = waiting.supervisor.id();
        waiting.supervisor.kill().unwrap();
        waiting.control.set_nonblocking(true).unwrap();
        let mut standing = NativeWalls {
            supervisor: Some(waiting.supervisor),
            control: Some(UnixStream::from_std(waiting.control).unwrap()),
            memory_counter: None,
            groups: Vec::new(),
        };
        assert_eq!(
            super::super::RunningWalls::take_down(&mut standing).await,
            0
        );
        assert!(!Path::new(&format!("/proc/{pid}")).exists());
    }
}
