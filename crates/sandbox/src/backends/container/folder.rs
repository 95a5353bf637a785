//! The folder of one container: its socket, its generated root, its mounts. Named after the process
//! that owns it, so that the next start can remove what a crash left. Entry point:
//! [`stale_names`].

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};
use protocol::Backend;
use walls::cgroups;

use super::super::confined_guest::own_folder;
use crate::backend_config::BackendConfig;

/// Subfolder for all mount points, and only for those.
const MOUNTS_DIR: &str = "mounts";

/// A folder that lives as long as its sandbox. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct ContainerFolder {
    path: PathBuf,
    name: String,
}

impl ContainerFolder {
    pub(crate) fn make(
        provisions: &BackendConfig,
        backend: Backend,
        number: u32,
    ) -> io::Result<Self> {
        let name = cgroups::group_name(u64::from(number)).ok_or(io::ErrorKind::Unsupported)?;
        let path = home(provisions, backend)?.join(&name);
        fs::create_dir(&path)?;
        // The engine's first steps inside run as an unprivileged user too, and must be able to
        // traverse it.
        let folder = Self { path, name };
        for path in [folder.path.clone(), folder.path.join(MOUNTS_DIR)] {
            if !path.exists() {
                fs::create_dir(&path)?;
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o711))?;
        }
        Ok(folder)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Also the container's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The process that owns it, for the container's label: pid and start time.
    pub(crate) fn owner(&self) -> String {
        self.name
            .split('-')
            .skip(2)
            .take(2)
            .collect::<Vec<_>>()
            .join("-")
    }

    /// Makes an empty folder as a mount point.
    pub(crate) fn mount_point(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(MOUNTS_DIR).join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// Makes an empty file as a mount point.
    pub(crate) fn mount_file(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(MOUNTS_DIR).join(name);
        fs::File::create_new(&path)?;
        Ok(path)
    }
}

impl ContainerFolder {
    /// Unmounts everything in it. Mounts that a container has taken over stay.
    pub(crate) fn unmount(&self) {
        unmount(&self.path);
    }
}

impl Drop for ContainerFolder {
    fn drop(&mut self) {
        unmount_and_remove(&self.path);
    }
}

fn home(provisions: &BackendConfig, backend: Backend) -> io::Result<PathBuf> {
    let run = own_folder(&provisions.containers.run)?;
    let home = own_folder(&run.join(backend.name()))?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o711))?;
    Ok(home)
}

/// Names of the containers whose owner process is dead.
pub(crate) fn stale_names(provisions: &BackendConfig, backend: Backend) -> Vec<String> {
    let home = provisions.containers.run.join(backend.name());
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| cgroups::is_abandoned(name))
        .collect()
}

/// Removes the folders of containers that are gone.
pub(crate) fn remove_folders(provisions: &BackendConfig, backend: Backend, names: &[String]) {
    for name in names {
        unmount_and_remove(&provisions.containers.run.join(backend.name()).join(name));
    }
}

/// Unmounts everything that was mounted for a container.
fn unmount(folder: &Path) {
    let below = format!("{}/", folder.join(MOUNTS_DIR).display());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&str> = points.filter(|point| point.starts_with(&below)).collect();
    // In reverse order of mounting.
    points.reverse();
    for point in points {
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

/// Unmounts everything in a folder and removes it. Never descends into mount points: a mount that
/// cannot be unmounted, such as a workspace, keeps the folder.
fn unmount_and_remove(folder: &Path) {
    unmount(folder);
    let mounts = folder.join(MOUNTS_DIR);
    for entry in fs::read_dir(&mounts).into_iter().flatten().flatten() {
        // Both fail on a mount point, and the first also on a folder that is not empty.
        let _ = fs::remove_dir(entry.path()).or_else(|_| fs::remove_file(entry.path()));
    }
    if fs::remove_dir(&mounts).is_ok() || !mounts.exists() {
        let _ = fs::remove_dir_all(folder);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_might_be_mounted_is_never_removed() {
        let run = tempfile::tempdir().unwrap();
        let mut provisions = BackendConfig::default();
        provisions.containers.run = run.path().to_owned();
        let folder = ContainerFolder::make(&provisions, Backend::Podman, 7).unwrap();
        let path = folder.path().to_owned();
        let workspace = folder.mount_point("workspace").unwrap();
        folder.mount_file("guest").unwrap();
        fs::write(path.join("profile"), "x").unwrap();
        // Simulates a mount that this process cannot unmount.
        fs::write(workspace.join("precious"), "x").unwrap();
        drop(folder);
        assert!(workspace.join("precious").exists());
        fs::remove_file(workspace.join("precious")).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // Its owner is this process, which is alive.
        assert!(stale_names(&provisions, Backend::Podman).is_empty());
        remove_folders(&provisions, Backend::Podman, &[name]);
        assert!(!path.exists());
    }
}
