//! What a sandbox shows of the host without sharing it: folders of programs under an overlay of the
//! sandbox's own, and files of `/proc` that tell of the machine covered.
//!
//! An overlay has inodes of its own: a watch on them hears nothing of what the host does with its
//! programs, and a lock on them holds up nobody outside. `/proc` cannot be mounted without these
//! files as long as programs need others beside them (`subset=pid` leaves out all).
//!
//! Taking an overlay down costs the kernel a grace period, so [`overlay_parents`] covers several
//! folders with one. Entry points: that, and [`overlay_and_mask`] for the other folders and `/proc`.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::plan::SetupStage;
use crate::supervisor::{SetupContext, SetupResult};
use crate::sys;

/// Where the covers are made, in a file system of the sandbox's own; gone when this is done.
const MASK_DIR: &str = "/dev/.covers";

/// Files that are empty instead: how the machine was started, what its devices, its disks and its
/// other users do, and what its kernel consists of. Programs live without them.
const MASKED_PROC_FILES: &[&str] = &[
    "bootconfig",
    "buddyinfo",
    "cmdline",
    "diskstats",
    "interrupts",
    "iomem",
    "ioports",
    "kallsyms",
    "key-users",
    "keys",
    "locks",
    "modules",
    "partitions",
    "sched_debug",
    "schedstat",
    "softirqs",
    "swaps",
    "timer_list",
    "zoneinfo",
];

/// Folders of the same kind.
const MASKED_PROC_DIRS: &[&str] = &[
    "acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi",
];

/// Names the boot of the machine; another name is made up for the sandbox.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Lays one overlay over each top-level folder of the host's (`/usr`, `/etc`) that holds some of these
/// folders, in place: what is opened there afterwards is opened through the overlay. Returns the folders
/// for which that holds. An overlay shows nothing of mounts below it, so a top-level folder with any is
/// left as it is. `empty` is an empty folder.
///
/// Runs in a mount namespace that leaves the host's tree afterwards, before it does.
pub(crate) fn overlay_parents<'a>(folders: &[&'a Path], empty: &Path) -> io::Result<Vec<&'a Path>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let points: Vec<&Path> = mount_points(&mounts).collect();
    let mut tried: Vec<(&Path, bool)> = Vec::new();
    let mut overlaid = Vec::new();
    for folder in folders {
        // Before the root, which is the last ancestor.
        let Some(top) = folder
            .ancestors()
            .take_while(|one| one.parent().is_some())
            .last()
        else {
            continue;
        };
        let known = tried.iter().find(|(one, _)| *one == top);
        let is_laid = known.map(|(_, is_laid)| *is_laid).unwrap_or_else(|| {
            let has_mounts = points.iter().any(|point| point.starts_with(top));
            let is_laid = !has_mounts && mount_overlay(top, empty);
            tried.push((top, is_laid));
            is_laid
        });
        // A symbolic link on the way may lead to another top-level folder.
        if is_laid && fs::canonicalize(folder).is_ok_and(|real| real == *folder) {
            overlaid.push(*folder);
        }
    }
    Ok(overlaid)
}

/// Of the lines of a `mountinfo` file of `/proc`.
fn mount_points(mountinfo: &str) -> impl Iterator<Item = &Path> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(Path::new)
}

/// Lays an overlay over each folder and covers what `/proc` tells. Runs in the sandbox's mount
/// namespace with its `/proc` and `/dev` in place, before rights are dropped.
pub(crate) fn overlay_and_mask<'a>(folders: impl Iterator<Item = &'a Path>) -> SetupResult<()> {
    let nothing = Path::new(MASK_DIR).join("nothing");
    fs::create_dir_all(&nothing).at(SetupStage::Mounts, "make covers")?;
    let mut folders = folders.peekable();
    let mounts = if folders.peek().is_some() {
        // Of the sandbox's first process, which sees all: this one may have no number in there.
        fs::read_to_string("/proc/1/mountinfo").at(SetupStage::Mounts, "list mounts")?
    } else {
        String::new()
    };
    let points: Vec<&Path> = mount_points(&mounts).collect();
    for folder in folders {
        overlay_tree(folder, &points, &nothing)
            .at(SetupStage::Mounts, "lay an overlay over programs")?;
    }
    mask_proc(&nothing).at(SetupStage::Mounts, "cover files of `/proc`")?;
    fs::remove_dir_all(MASK_DIR).at(SetupStage::Mounts, "remove the covers")
}

/// Lays an overlay over a folder, and over each that is mounted below it: an overlay shows nothing of
/// those.
fn overlay_tree(folder: &Path, points: &[&Path], nothing: &Path) -> io::Result<()> {
    let mut below: Vec<(&Path, OwnedFd)> = Vec::new();
    for point in points {
        let is_known = below.iter().any(|(known, _)| point.starts_with(known));
        if *point != folder && point.starts_with(folder) && !is_known {
            below.push((point, sys::open_tree(point)?));
        }
    }
    if !mount_overlay(folder, nothing) {
        return Ok(());
    }
    for (point, tree) in below {
        sys::move_mount(&tree, point)?;
        if point.is_dir() {
            overlay_tree(point, points, nothing)?;
        }
    }
    Ok(())
}

/// An older kernel, or a file system that cannot lie under an overlay: then the folder stays as it
/// is, read-only all the same.
fn mount_overlay(folder: &Path, nothing: &Path) -> bool {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    // The kernel wants two folders where there is none to write to.
    let options = format!(
        "lowerdir={}:{},userxattr",
        folder.display(),
        nothing.display()
    );
    let laid = mount(
        Some("overlay"),
        folder,
        Some("overlay"),
        flags,
        Some(&*options),
    );
    laid.is_ok()
}

fn mask_proc(nothing: &Path) -> io::Result<()> {
    let file = |name: &str, content: &[u8]| -> io::Result<PathBuf> {
        let path = Path::new(MASK_DIR).join(name);
        fs::write(&path, content)?;
        Ok(path)
    };
    let empty = file("empty", b"")?;
    for name in MASKED_PROC_FILES {
        bind_over(&empty, &Path::new("/proc").join(name))?;
    }
    for name in MASKED_PROC_DIRS {
        bind_over(nothing, &Path::new("/proc").join(name))?;
    }
    let another = fs::read("/proc/sys/kernel/random/uuid").unwrap_or_default();
    bind_over(&file("boot_id", &another)?, Path::new(BOOT_ID_PATH))
}

/// Not every kernel has all of them.
fn bind_over(with: &Path, target: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND;
    match mount(Some(with), target, None::<&str>, flags, None::<&str>) {
        Err(nix::errno::Errno::ENOENT) => Ok(()),
        outcome => Ok(outcome?),
    }
}
