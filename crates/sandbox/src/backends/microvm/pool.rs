//! Machines that are restored ahead and wait, for a server that starts sandboxes all the time.
//!
//! Each has its own empty workspace folder. A sandbox whose workspace is an empty folder takes a
//! machine together with that folder, which is renamed over the empty one; the machine's mount
//! follows. Other sandboxes start as usual. Nothing outlives the pool: its machines end with it or
//! with its process, and the next pool removes folders that a crash left.
//! Entry type: [`MachinePool`].

use std::collections::VecDeque;
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use protocol::Backend;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::warn;
use walls::cgroups::is_abandoned;

use super::blueprint::Blueprint;
use super::folder::OwnedFolder;
use super::qemu::Qemu;
use super::{begin, prepare_blueprint};
use crate::error::SandboxError;
use crate::limits::SandboxLimits;
use crate::spec::{RootSpec, SandboxSpec};

/// Delay after a machine could not be started.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Machines of one kind, a few of which always wait. Dropping it ends them.
#[derive(Debug)]
pub struct MachinePool {
    shared: Arc<PoolState>,
    filler: tokio::sync::Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct PoolState {
    /// The spec of the machines; its workspace is a placeholder.
    spec: SandboxSpec,
    folder: PathBuf,
    size: usize,
    waiting: Mutex<VecDeque<WaitingMachine>>,
    taken: Notify,
    count: watch::Sender<usize>,
}

/// A waiting machine.
#[derive(Debug)]
struct WaitingMachine {
    qemu: Qemu,
    key: String,
    folder: OwnedFolder,
}

impl MachinePool {
    /// Keeps `size` machines for sandboxes like `spec`, whose workspace does not matter. `folder`
    /// must be on the same file system as the later workspaces. Needs a running runtime.
    pub fn start(spec: SandboxSpec, size: usize, folder: impl Into<PathBuf>) -> io::Result<Self> {
        let folder = folder.into();
        fs::create_dir_all(&folder)?;
        remove_stale(&folder)?;
        let mut spec = SandboxSpec {
            backend: Backend::Microvm,
            workspace: folder.clone(),
            audit: None,
            ..spec
        };
        if spec.root == RootSpec::Host
            && let Some(image) = spec.provisions.default_image.clone()
        {
            spec.root = RootSpec::Image(image);
        }
        let shared = Arc::new(PoolState {
            spec,
            folder,
            size,
            waiting: Mutex::default(),
            taken: Notify::new(),
            count: watch::Sender::new(0),
        });
        let filler = tokio::spawn(fill(Arc::downgrade(&shared)));
        Ok(Self {
            shared,
            filler: Some(filler).into(),
        })
    }

    /// The number of waiting machines.
    pub fn waiting(&self) -> usize {
        *self.shared.count.borrow()
    }

    /// Waits until the pool is full.
    pub async fn filled(&self) {
        let mut count = self.shared.count.subscribe();
        // Cannot fail: this pool owns the sender.
        let _ = count.wait_for(|count| *count >= self.shared.size).await;
    }

    /// Ends all waiting machines, and returns when they are gone. No more are started.
    pub async fn end(&self) {
        if let Some(filler) = self.filler.lock().await.take() {
            filler.abort();
            let _ = filler.await;
        }
        let waiting = std::mem::take(&mut *self.shared.waiting());
        self.shared.changed();
        for mut one in waiting {
            one.qemu.take_down().await;
        }
    }

    /// A machine for this spec, with its workspace in place; `None` if none fits.
    pub(super) fn take(&self, spec: &SandboxSpec, blueprint: &Blueprint) -> Option<Qemu> {
        if !covers_limits(&self.shared.spec.limits, &spec.limits) {
            return None;
        }
        let key = blueprint.key();
        let mut waiting = self.shared.waiting();
        let has_gone = remove_ended(&mut waiting);
        let place = waiting.iter().position(|one| one.key == key);
        // The filler is blocked by the lock meanwhile, so it does not replace a machine that is
        // only inspected.
        let found = place.and_then(|place| {
            replace_folder(waiting[place].folder.path(), &spec.workspace).ok()?;
            waiting.remove(place)
        });
        drop(waiting);
        if has_gone || found.is_some() {
            self.shared.changed();
            self.shared.taken.notify_one();
        }
        Some(found?.qemu)
    }
}

/// Removes machines that have ended by themselves. Returns whether there were any.
fn remove_ended(waiting: &mut VecDeque<WaitingMachine>) -> bool {
    let before = waiting.len();
    waiting.retain(|one| !one.qemu.has_ended());
    waiting.len() < before
}

impl Drop for MachinePool {
    fn drop(&mut self) {
        if let Some(filler) = self.filler.get_mut() {
            filler.abort();
        }
        self.shared.waiting().clear();
    }
}

impl PoolState {
    fn waiting(&self) -> std::sync::MutexGuard<'_, VecDeque<WaitingMachine>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self) {
        // Under the lock, so that an older count cannot overwrite a newer one.
        let waiting = self.waiting();
        self.count.send_replace(waiting.len());
    }

    /// Adds one machine.
    async fn add(&self) -> Result<(), SandboxError> {
        let failed = |source| SandboxError::Workspace {
            path: self.folder.clone(),
            source,
        };
        let folder = OwnedFolder::make(&self.folder).map_err(failed)?;
        let spec = SandboxSpec {
            workspace: folder.path().to_owned(),
            ..self.spec.clone()
        };
        let blueprint = prepare_blueprint(&spec).await?;
        let qemu = begin(&spec, &blueprint).await?;
        self.waiting().push_back(WaitingMachine {
            qemu,
            key: blueprint.key(),
            folder,
        });
        self.changed();
        Ok(())
    }
}

/// Keeps the pool full as long as it exists.
async fn fill(pool: Weak<PoolState>) {
    loop {
        let Some(shared) = pool.upgrade() else {
            return;
        };
        if shared.waiting().len() >= shared.size {
            shared.taken.notified().await;
            continue;
        }
        if let Err(error) = shared.add().await {
            warn!(%error, "cannot add a machine to the pool");
            drop(shared);
            tokio::time::sleep(RETRY_DELAY).await;
        }
    }
}

/// Whether a machine that was made for some limits serves other limits. The exact limits are sent
/// when the machine is assigned, and are enforced inside; the limits around the machine only must
/// not be lower. Its memory size is part of its key.
fn covers_limits(made_for: &SandboxLimits, wanted: &SandboxLimits) -> bool {
    made_for.cpus >= wanted.cpus && made_for.disk >= wanted.disk
}

/// Replaces an empty folder by a machine's folder, with the mode of the empty one.
fn replace_folder(folder: &Path, place: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(place)?;
    let own = fs::symlink_metadata(folder)?;
    // Owners were mapped when the machine was started.
    if !found.is_dir() || (found.uid(), found.gid()) != (own.uid(), own.gid()) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    fs::set_permissions(folder, fs::Permissions::from_mode(found.mode() & 0o7777))?;
    // Fails if the place is not empty.
    fs::rename(folder, place)
}

/// Removes the leftovers of dead processes.
fn remove_stale(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_abandoned) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_moves_only_to_where_nothing_is() {
        let check = |prepare: fn(&Path), moves: bool| {
            let scene = tempfile::tempdir().unwrap();
            let (folder, place) = (scene.path().join("folder"), scene.path().join("place"));
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("mark"), "").unwrap();
            prepare(&place);
            assert_eq!(replace_folder(&folder, &place).is_ok(), moves);
            assert_eq!(place.join("mark").exists(), moves);
        };
        let empty = |place: &Path| fs::create_dir(place).unwrap();
        let full = |place: &Path| {
            fs::create_dir(place).unwrap();
            fs::write(place.join("content"), "").unwrap();
        };
        let link = |place: &Path| std::os::unix::fs::symlink("/tmp", place).unwrap();
        let file = |place: &Path| fs::write(place, "").unwrap();
        let nothing = |_: &Path| {};
        check(empty, true);
        check(full, false);
        check(link, false);
        check(file, false);
        check(nothing, false);
    }

    #[test]
    fn folders_of_dead_processes_are_swept_and_others_stay() {
        let scene = tempfile::tempdir().unwrap();
        let own = OwnedFolder::make(scene.path()).unwrap();
        let name = own.path().file_name().unwrap().to_str().unwrap();
        // The same process id with another start time.
        let mut parts: Vec<&str> = name.split('-').collect();
        parts[3] = "1";
        let dead = scene.path().join(parts.join("-"));
        let other = scene.path().join("other");
        for folder in [&dead, &other] {
            fs::create_dir(folder).unwrap();
        }
        remove_stale(scene.path()).unwrap();
        assert!(own.path().exists() && other.exists() && !dead.exists());
    }
}
