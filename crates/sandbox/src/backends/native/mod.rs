//! Native walls: plans them, starts the supervisor, listens to its reports.

mod diagnosis;
pub(super) mod planning;

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, Once, PoisonError};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use walls::cgroups::{self, Available};
use walls::plan::{self, Ask, Failure, Landlocked, Plan, Report, Stage};

use self::planning::{Facts, Ownership};
use super::{Later, Raised, check_strict, words};
use crate::error::SandboxError;
use crate::guest_program;
use crate::limits::enforce;
use crate::spec::{Backend, RootSpec, SandboxSpec};

/// The supervisor of one sandbox. Dropping it ends the sandbox.
#[derive(Debug)]
pub(crate) struct Standing {
    supervisor: Option<Child>,
    control: Option<UnixStream>,
    memory_counter: Option<PathBuf>,
}

pub(crate) async fn raise(spec: &SandboxSpec) -> Result<Raised, SandboxError> {
    let facts = gather(spec)?;
    let limits = enforce(&spec.limits, &facts.groups, facts.processors.len());
    if spec.strict_limits {
        check_strict(&limits)?;
    }
    let (standing, link, landlock) = stand(spec, &facts, |_| {}, None).await?;
    Ok(Raised::usual(
        Backend::Native,
        link,
        Box::new(standing),
        describe(&spec.root, landlock),
        limits,
    ))
}

/// Puts up walls as the spec says, after `adapt` has changed the plan for what else than the guest
/// is to stand behind them; that may say on `errors` why it did not start.
pub(super) async fn stand(
    spec: &SandboxSpec,
    facts: &Facts,
    adapt: impl Fn(&mut Plan),
    errors: Option<OwnedFd>,
) -> Result<(Standing, UnixStream, Option<Landlocked>), SandboxError> {
    let plan = |ownership| {
        let mut plan = planning::plan(spec, facts, ownership);
        adapt(&mut plan);
        plan
    };
    let ownership = match facts.is_host_root {
        true => Ownership::Mapped,
        false => Ownership::Caller,
    };
    match start(&plan(ownership), errors.as_ref()).await {
        // A file system that cannot map owners: run as the owner, unless that is root.
        Err(Start::Failed(failure)) if cannot_map(&failure, facts) => {
            start(&plan(Ownership::Owner), errors.as_ref()).await
        }
        outcome => outcome,
    }
    .map_err(|error| match error {
        Start::Launch(error) => SandboxError::Launch(error),
        Start::Failed(source) => SandboxError::Walls {
            advice: diagnosis::advise(&source, &diagnosis::Signs::read(), facts),
            source,
        },
    })
}

fn cannot_map(failure: &Failure, facts: &Facts) -> bool {
    failure.stage == Stage::Mounts
        && failure.step.starts_with("map the owner")
        && facts.workspace_owner.0 != 0
}

pub(super) fn describe(root: &RootSpec, landlock: Option<Landlocked>) -> Vec<String> {
    let mut walls: Vec<String> = [
        "user, mount, pid, network, ipc, uts and cgroup namespaces",
        words::root(root),
        words::UNPRIVILEGED,
        words::SECCOMP,
    ]
    .map(str::to_owned)
    .into();
    walls.extend(words::landlock(landlock));
    walls
}

pub(super) fn gather(spec: &SandboxSpec) -> Result<Facts, SandboxError> {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let uid = nix::unistd::geteuid().as_raw();
    let workspace_owner = owner(&spec.workspace).map_err(|source| SandboxError::Workspace {
        path: spec.workspace.clone(),
        source,
    })?;
    let image_owner = match &spec.root {
        RootSpec::Host => None,
        RootSpec::Image(image) => Some(owner(image).map_err(|source| SandboxError::Image {
            path: image.clone(),
            source,
        })?),
    };
    Ok(Facts {
        uid,
        gid: nix::unistd::getegid().as_raw(),
        is_host_root: uid == 0 && maps_everyone(),
        workspace_owner,
        image_owner,
        groups: Available::detect(),
        group_name: cgroups::group_name(u64::from(number)),
        processors: processors(),
        // Sandboxes of several host processes must differ too.
        number: (std::process::id() << 10).wrapping_add(number),
    })
}

fn owner(folder: &Path) -> io::Result<(u32, u32)> {
    let metadata = fs::metadata(folder)?;
    match metadata.is_dir() {
        true => Ok((metadata.uid(), metadata.gid())),
        false => Err(io::ErrorKind::NotADirectory.into()),
    }
}

/// Whether this is the machine's own user namespace, where root is really root.
pub(super) fn maps_everyone() -> bool {
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

fn processors() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count())
        .filter(|number| set.is_set(*number).unwrap_or(false))
        .collect()
}

enum Start {
    Launch(io::Error),
    Failed(Failure),
}

impl From<io::Error> for Start {
    fn from(error: io::Error) -> Self {
        Self::Launch(error)
    }
}

/// A supervisor that waits for its plan.
#[derive(Debug)]
struct Waiting {
    supervisor: Child,
    control: std::os::unix::net::UnixStream,
    link: std::os::unix::net::UnixStream,
}

impl Waiting {
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

/// One that was started ahead of its use.
static SPARE: Mutex<Option<Waiting>> = Mutex::new(None);

/// Starts a supervisor ahead of its use, unless one waits already. It ends with this process.
pub(crate) fn prepare() {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.is_none() {
        *spare = Waiting::spawn(None).ok();
    }
}

async fn start(
    plan: &Plan,
    errors: Option<&OwnedFd>,
) -> Result<(Standing, UnixStream, Option<Landlocked>), Start> {
    let spare = match errors {
        Some(_) => None,
        None => SPARE.lock().unwrap_or_else(PoisonError::into_inner).take(),
    };
    let Waiting {
        supervisor,
        control,
        link,
    } = spare.map_or_else(|| Waiting::spawn(errors), Ok)?;
    plan::send(&control, plan)?;
    // While the supervisor works there is time for what a crash left.
    static SWEPT: Once = Once::new();
    SWEPT.call_once(cgroups::sweep);
    control.set_nonblocking(true)?;
    link.set_nonblocking(true)?;
    let counter = plan.groups.iter().find_map(|group| {
        let file = group.kill_counter.as_ref()?;
        Some(group.folder.join(file))
    });
    let mut standing = Standing {
        supervisor: Some(supervisor),
        control: Some(UnixStream::from_std(control)?),
        memory_counter: counter,
    };
    match standing.report().await? {
        Report::Ready { landlock } => Ok((standing, UnixStream::from_std(link)?, landlock)),
        Report::Failed(failure) => Err(Start::Failed(failure)),
        Report::Kills { .. } | Report::Ended { .. } => {
            Err(Start::Launch(io::ErrorKind::UnexpectedEof.into()))
        }
    }
}

impl Standing {
    /// Has the supervisor end it in so long, instead of when its plan says.
    pub(super) async fn set_deadline(&mut self, deadline: Duration) -> io::Result<()> {
        let control = self.control.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut message = Vec::new();
        plan::send(&mut message, &Ask::Deadline(deadline))?;
        control.write_all(&message).await
    }

    async fn report(&mut self) -> io::Result<Report> {
        let control = self.control.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let length = control.read_u32_le().await?;
        let mut encoded = vec![0; length as usize];
        control.read_exact(&mut encoded).await?;
        let framed = [&length.to_le_bytes()[..], &encoded].concat();
        plan::receive(&framed[..])
    }
}

impl super::Standing for Standing {
    fn take_down(&mut self) -> Later<'_, u64> {
        Box::pin(async {
            // Half a close: the supervisor sees the end, and can still report.
            if let Some(control) = &mut self.control {
                let _ = tokio::io::AsyncWriteExt::shutdown(control).await;
            }
            let kills = match self.report().await {
                Ok(Report::Ended {
                    out_of_memory_kills,
                }) => out_of_memory_kills,
                _ => 0,
            };
            self.control = None;
            if let Some(mut supervisor) = self.supervisor.take() {
                // It has said its last word and exits now.
                let _ = supervisor.wait();
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> Later<'_, u64> {
        let text = self
            .memory_counter
            .as_ref()
            .and_then(|file| fs::read_to_string(file).ok());
        let kills = text.as_deref().and_then(cgroups::count_memory_kills);
        Box::pin(std::future::ready(kills.unwrap_or(0)))
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        self.control = None;
        if let Some(mut supervisor) = self.supervisor.take() {
            // Ends by itself now that the control socket is closed; somebody must collect it.
            std::thread::spawn(move || supervisor.wait());
        }
    }
}
