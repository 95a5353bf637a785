//! The folder of one container: its socket, its made-up root, what is mounted for it. Named after
//! the process that owns it, so that the next start removes what a crash left. Entry points:
//! [`Folder::make`], [`left_over`].

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, umount2};
use walls::cgroups;

use super::super::contained::own_folder;
use crate::provisions::Provisions;
use crate::spec::Backend;

/// Everything that is mounted is mounted in here, and nothing else is here.
const MOUNTS: &str = "mounts";

/// A folder that lasts as long as its sandbox. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    name: String,
}

impl Folder {
    pub(crate) fn make(provisions: &Provisions, backend: Backend, number: u32) -> io::Result<Self> {
        let name = cgroups::group_name(u64::from(number)).ok_or(io::ErrorKind::Unsupported)?;
        let path = home(provisions, backend)?.join(&name);
        fs::create_dir(&path)?;
        // The engine's first steps inside are nobody's too, and have to get through.
        let folder = Self { path, name };
        for path in [folder.path.clone(), folder.path.join(MOUNTS)] {
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

    /// The process that owns it, for the container's label: its number and when it began.
    pub(crate) fn owner(&self) -> String {
        self.name
            .split('-')
            .skip(2)
            .take(2)
            .collect::<Vec<_>>()
            .join("-")
    }

    /// An empty folder on which something will be mounted.
    pub(crate) fn mount_point(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(MOUNTS).join(name);
        fs::create_dir(&path)?;
        Ok(path)
    }

    /// An empty file for the same.
    pub(crate) fn mount_file(&self, name: &str) -> io::Result<PathBuf> {
        let path = self.path.join(MOUNTS).join(name);
        fs::File::create_new(&path)?;
        Ok(path)
    }
}

impl Folder {
    /// Takes down what is mounted in it; whoever took it over keeps what they have.
    pub(crate) fn unmount(&self) {
        unmount(&self.path);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        clear(&self.path);
    }
}

fn home(provisions: &Provisions, backend: Backend) -> io::Result<PathBuf> {
    let run = own_folder(&provisions.containers.run)?;
    let home = own_folder(&run.join(backend.name()))?;
    fs::set_permissions(&home, fs::Permissions::from_mode(0o711))?;
    Ok(home)
}

/// Names of the containers of processes that no longer live.
pub(crate) fn left_over(provisions: &Provisions, backend: Backend) -> Vec<String> {
    let home = provisions.containers.run.join(backend.name());
    let entries = fs::read_dir(home).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| cgroups::is_abandoned(name))
        .collect()
}

/// Removes the folders of containers that are gone.
pub(crate) fn remove(provisions: &Provisions, backend: Backend, names: &[String]) {
    for name in names {
        clear(&provisions.containers.run.join(backend.name()).join(name));
    }
}

/// Takes down what is mounted for a container.
fn unmount(folder: &Path) {
    let below = format!("{}/", folder.join(MOUNTS).display());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut points: Vec<&str> = points.filter(|point| point.starts_with(&below)).collect();
    // What was mounted last goes first.
    points.reverse();
    for point in points {
        let _ = umount2(point, MntFlags::MNT_DETACH);
    }
}

/// Takes down what is still mounted there and removes the rest. Never goes into anything that
/// could be mounted: a mount that stays, such as somebody's workspace, keeps the folder.
fn clear(folder: &Path) {
    unmount(folder);
    let mounts = folder.join(MOUNTS);
    for entry in fs::read_dir(&mounts).into_iter().flatten().flatten() {
        // Both refuse a mount point, and the first whatever is not empty.
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
        let mut provisions = Provisions::default();
        provisions.containers.run = run.path().to_owned();
        let folder = Folder::make(&provisions, Backend::Podman, 7).unwrap();
        let path = folder.path().to_owned();
        let workspace = folder.mount_point("workspace").unwrap();
        folder.mount_file("guest").unwrap();
        fs::write(path.join("profile"), "x").unwrap();
        // As it looks when a mount is there that this process cannot take down.
        fs::write(workspace.join("precious"), "x").unwrap();
        drop(folder);
        assert!(workspace.join("precious").exists());
        fs::remove_file(workspace.join("precious")).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        // It belongs to this process, which lives.
        assert!(left_over(&provisions, Backend::Podman).is_empty());
        remove(&provisions, Backend::Podman, &[name]);
        assert!(!path.exists());
    }
}
