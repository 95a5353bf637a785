//! A running Podman container, and its end.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::oneshot::error::TryRecvError;
use walls::ProcessHandle;

use super::super::BoxFuture;
use super::super::child::{run_on_thread, wait_for};
use super::super::container::cgroup_limits::read_memory_kills;
use super::super::container::folder::ContainerFolder;
use super::PodmanRun;
use super::engine::{PODMAN_TIMEOUT, PodmanEngine};
use crate::start_progress;

/// How long `podman run` may take to end while its container is taken down.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// One container. Dropping it ends it.
#[derive(Debug)]
pub(super) struct PodmanContainer {
    remains: Option<PodmanParts>,
    kill_counter: Option<PathBuf>,
}

/// The parts of a container, to be taken down as a whole.
#[derive(Debug)]
struct PodmanParts {
    engine: PodmanEngine,
    folder: ContainerFolder,
    /// `podman run`, until it has ended.
    run: Option<PodmanRun>,
    guest: Option<ProcessHandle>,
    /// Podman's monitor process, which removes the container after the guest has ended, and then
    /// ends itself.
    monitor: Option<ProcessHandle>,
}

impl PodmanContainer {
    pub(super) fn new(engine: PodmanEngine, folder: ContainerFolder, run: PodmanRun) -> Self {
        Self {
            remains: Some(PodmanParts {
                engine,
                folder,
                run: Some(run),
                guest: None,
                monitor: None,
            }),
            kill_counter: None,
        }
    }

    /// Waits for the end of `podman run`, which ends when the container has been started.
    pub(super) async fn started(&mut self) -> Option<Output> {
        let remains = self.remains.as_mut()?;
        let output = (&mut remains.run.as_mut()?.ended).await.ok();
        remains.run = None;
        output
    }

    /// Watches the guest, and the monitor, which is its parent.
    pub(super) fn watch(&mut self, guest: Option<i32>, kill_counter: Option<&Path>) {
        self.kill_counter = kill_counter.map(Path::to_owned);
        if let (Some(pid), Some(remains)) = (guest, &mut self.remains) {
            remains.guest = ProcessHandle::open(pid).ok();
            remains.monitor = monitor_of(pid).and_then(|pid| ProcessHandle::open(pid).ok());
        }
    }
}

/// The parent of a process, if it is Podman's monitor.
fn monitor_of(guest: i32) -> Option<i32> {
    let field = |pid: i32, name: &str| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let mut lines = status.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
        value.map(str::to_owned)
    };
    let parent = field(guest, "PPid")?.parse().ok()?;
    (field(parent, "Name")? == "conmon").then_some(parent)
}

impl PodmanRun {
    /// Waits for its end, and kills it after a timeout. Blocks.
    fn end(mut self) {
        let give_up = Instant::now() + RUN_TIMEOUT;
        while self.ended.try_recv() == Err(TryRecvError::Empty) {
            if Instant::now() > give_up {
                let _ = killpg(Pid::from_raw(self.pid), Signal::SIGKILL);
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl PodmanParts {
    /// Ends everything, and returns when it is gone. Blocks.
    fn take_down(mut self) {
        if let Some(guest) = &self.guest {
            guest.kill();
        }
        if let Some(run) = self.run.take() {
            // Until it has ended, it may still start processes.
            run.end();
        }
        match (&self.guest, &self.monitor) {
            (Some(_), Some(monitor)) => wait_for(monitor, PODMAN_TIMEOUT),
            _ => self.engine.remove(&[self.folder.name().to_owned()]),
        }
    }
}

impl super::RunningWalls for PodmanContainer {
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let kills = read_memory_kills(self.kill_counter.as_deref());
            if let Some(remains) = self.remains.take() {
                run_on_thread(|| remains.take_down()).await;
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        let kills = read_memory_kills(self.kill_counter.as_deref());
        Box::pin(std::future::ready(kills))
    }
}

impl Drop for PodmanContainer {
    fn drop(&mut self) {
        if let Some(remains) = self.remains.take() {
            start_progress::take_down_on_thread(|| remains.take_down());
        }
    }
}
