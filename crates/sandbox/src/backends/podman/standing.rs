//! A running Podman container, and its end.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::oneshot::error::TryRecvError;
use walls::Watched;

use super::super::Later;
use super::super::child::{aside, wait_for};
use super::super::container::folder::Folder;
use super::super::container::holds::memory_kills;
use super::Run;
use super::engine::{Engine, PODMAN_TIMEOUT};
use crate::starting;

/// How long `podman run` may take to end while its container is taken down.
const RUN_TIMEOUT: Duration = Duration::from_secs(10);

/// One container. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Walls {
    remains: Option<Remains>,
    kill_counter: Option<PathBuf>,
}

/// The parts of a container, to be taken down as a whole.
#[derive(Debug)]
struct Remains {
    engine: Engine,
    folder: Folder,
    /// `podman run`, until it has ended.
    run: Option<Run>,
    guest: Option<Watched>,
    /// Podman's monitor process, which removes the container after the guest has ended, and then
    /// ends itself.
    monitor: Option<Watched>,
}

impl Walls {
    pub(super) fn new(engine: Engine, folder: Folder, run: Run) -> Self {
        Self {
            remains: Some(Remains {
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
            remains.guest = Watched::open(pid).ok();
            remains.monitor = monitor_of(pid).and_then(|pid| Watched::open(pid).ok());
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

impl Run {
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

impl Remains {
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

impl super::Standing for Walls {
    fn take_down(&mut self) -> Later<'_, u64> {
        Box::pin(async {
            let kills = memory_kills(self.kill_counter.as_deref());
            if let Some(remains) = self.remains.take() {
                aside(|| remains.take_down()).await;
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> Later<'_, u64> {
        let kills = memory_kills(self.kill_counter.as_deref());
        Box::pin(std::future::ready(kills))
    }
}

impl Drop for Walls {
    fn drop(&mut self) {
        if let Some(remains) = self.remains.take() {
            starting::take_down_aside(|| remains.take_down());
        }
    }
}
