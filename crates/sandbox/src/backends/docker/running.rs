//! A running Docker container, and its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bollard::models::ContainerCreateBody;
use tokio::task::JoinHandle;
use walls::ProcessHandle;

use super::super::BoxFuture;
use super::super::container::cgroup_limits::read_memory_kills;
use super::super::container::folder::ContainerFolder;
use super::daemon::DockerDaemon;
use crate::error::SandboxError;
use crate::start_progress;

/// One container. Dropping it ends it.
#[derive(Debug)]
pub(super) struct DockerContainer {
    remains: Option<DockerParts>,
    kill_counter: Option<PathBuf>,
}

/// The parts of a container, to be taken down as a whole.
#[derive(Debug)]
struct DockerParts {
    daemon: DockerDaemon,
    folder: ContainerFolder,
    /// Kept, because the daemon creates the container even if the request is dropped.
    creating: Option<JoinHandle<Result<bool, SandboxError>>>,
    guest: Option<Arc<ProcessHandle>>,
    /// Ends the sandbox at its deadline. Docker has no deadline, and the guest does not end itself.
    deadline: Option<JoinHandle<()>>,
}

/// Time after the deadline in which the guest may end the commands.
const DEADLINE_GRACE_PERIOD: Duration = Duration::from_secs(1);

impl DockerContainer {
    pub(super) fn new(daemon: DockerDaemon, folder: ContainerFolder) -> Self {
        Self {
            remains: Some(DockerParts {
                daemon,
                folder,
                creating: None,
                guest: None,
                deadline: None,
            }),
            kill_counter: None,
        }
    }

    /// Creates the container; `false` if its image is missing.
    pub(super) async fn create(&mut self, body: ContainerCreateBody) -> Result<bool, SandboxError> {
        let remains = self.remains.as_mut().ok_or(SandboxError::Ended)?;
        let (daemon, name) = (remains.daemon.clone(), remains.folder.name().to_owned());
        let creating = tokio::spawn(async move { daemon.create(&name, body).await });
        let creating = remains.creating.insert(creating);
        let made = creating.await.unwrap_or(Err(SandboxError::Ended));
        remains.creating = None;
        made
    }

    /// Unmounts the mounts that were made for the daemon, which has its own by now.
    pub(super) fn unmount(&self) {
        if let Some(remains) = &self.remains {
            remains.folder.unmount();
        }
    }

    /// Watches the guest, and ends it after `wall`.
    pub(super) fn watch(
        &mut self,
        guest: Option<i32>,
        wall: Option<Duration>,
        kill_counter: Option<&Path>,
    ) {
        self.kill_counter = kill_counter.map(Path::to_owned);
        let Some(remains) = &mut self.remains else {
            return;
        };
        remains.guest = guest
            .and_then(|pid| ProcessHandle::open(pid).ok())
            .map(Arc::new);
        let (guest, daemon) = (remains.guest.clone(), remains.daemon.clone());
        let name = remains.folder.name().to_owned();
        remains.deadline = wall.map(|wall| {
            tokio::spawn(async move {
                tokio::time::sleep(wall + DEADLINE_GRACE_PERIOD).await;
                end(guest.as_deref(), &daemon, &name).await;
            })
        });
    }
}

impl DockerParts {
    /// Ends everything, and returns when it is gone.
    async fn take_down(mut self) {
        if let Some(creating) = self.creating.take() {
            let _ = creating.await;
        }
        if let Some(deadline) = &self.deadline {
            deadline.abort();
        }
        let name = self.folder.name();
        end(self.guest.as_deref(), &self.daemon, name).await;
        self.daemon.gone(name).await;
    }
}

async fn end(guest: Option<&ProcessHandle>, daemon: &DockerDaemon, name: &str) {
    match guest {
        // The daemon notices its end, and removes the container.
        Some(guest) => guest.kill(),
        None => daemon.remove(name).await,
    }
}

impl super::RunningWalls for DockerContainer {
    fn take_down(&mut self) -> BoxFuture<'_, u64> {
        Box::pin(async {
            let kills = read_memory_kills(self.kill_counter.as_deref());
            if let Some(remains) = self.remains.take() {
                remains.take_down().await;
            }
            kills
        })
    }

    fn memory_kills(&mut self) -> BoxFuture<'_, u64> {
        let kills = read_memory_kills(self.kill_counter.as_deref());
        Box::pin(std::future::ready(kills))
    }
}

impl Drop for DockerContainer {
    fn drop(&mut self) {
        let Some(remains) = self.remains.take() else {
            return;
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => {
                let leaving = start_progress::leaving();
                runtime.spawn(async move {
                    remains.take_down().await;
                    drop(leaving);
                });
            }
            // There is no runtime to wait for the daemon, which removes the container by itself.
            Err(_) => {
                if let Some(guest) = &remains.guest {
                    guest.kill();
                }
            }
        }
    }
}
