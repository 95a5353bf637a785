//! Separates host files that a sandbox sees from the host: overlays over the program folders, and masks
//! over the files in `/proc` that describe the machine.
//!
//! An overlay has its own inodes. A watch on them therefore does not see what the host does with its
//! programs, and a lock on them does not block processes outside. The masked files cannot be left out when
//! `/proc` is mounted: `subset=pid` also leaves out the files next to them that programs need.
//!
//! Unmounting an overlay costs the kernel a grace period, so [`overlay_parents`] covers several folders
//! with one overlay. [`overlay_and_mask`] covers the remaining folders and `/proc`. These two functions are
//! the entry points.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount};

use crate::plan::SetupStage;
use crate::supervisor::{SetupContext, SetupResult};
use crate::sys;

/// Temporary folder for the mount sources of the masks, in a file system of the sandbox. Removed at the end
/// of [`overlay_and_mask`].
const MASK_DIR: &str = "/dev/.covers";

/// Files that appear empty in the sandbox. They reveal how the machine was booted, the activity of its
/// devices, disks and other users, and the parts of its kernel. Programs work without them.
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

/// Folders that appear empty in the sandbox for the same reason.
const MASKED_PROC_DIRS: &[&str] = &[
    "acpi", "asound", "bus", "driver", "fs", "irq", "pressure", "scsi",
];

/// Identifies the current boot of the machine. The sandbox sees a random value instead.
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Mounts one overlay in place over each top-level folder of the host (`/usr`, `/etc`) that contains some of
/// `folders`. Files opened there afterwards are opened through the overlay. Returns the folders that are now
/// behind an overlay. An overlay hides mounts below it, so a top-level folder that contains a mount point
/// is skipped. `empty` is an empty folder.
///
/// Must run in the sandbox's new mount namespace, before it detaches the host's tree.
pub(crate) fn overlay_parents<'a>(folders: &[&'a Path], empty: &Path) -> io::Result<Vec<&'a Path>> {
    let mounts = fs::read_to_string("/proc/self/mountinfo")?;
    let points: Vec<&Path> = mount_points(&mounts).collect();
    let mut tried: Vec<(&Path, bool)> = Vec::new();
    let mut overlaid = Vec::new();
    for folder in folders {
        // The top-level folder is the ancestor just below `/`, which is the last ancestor.
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
        // A symbolic link in the path may lead to a different top-level folder.
        if is_laid && fs::canonicalize(folder).is_ok_and(|real| real == *folder) {
            overlaid.push(*folder);
        }
    }
    Ok(overlaid)
}

/// Parses the mount points from the text of a `mountinfo` file in `/proc`.
fn mount_points(mountinfo: &str) -> impl Iterator<Item = &Path> {
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points.map(Path::new)
}

/// Mounts an overlay over each folder and masks the files in `/proc` that describe the machine. Must run in
/// the sandbox's mount namespace, after its `/proc` and `/dev` are mounted and before privileges are dropped.
pub(crate) fn overlay_and_mask<'a>(folders: impl Iterator<Item = &'a Path>) -> SetupResult<()> {
    let nothing = Path::new(MASK_DIR).join("nothing");
    fs::create_dir_all(&nothing).at(SetupStage::Mounts, "make covers")?;
    let mut folders = folders.peekable();
    let mounts = if folders.peek().is_some() {
        // Read process 1's file, which lists all mounts: the current process may have no PID in this
        // `/proc`.
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

/// Mounts an overlay over a folder, and another over each folder mounted below it, because an overlay hides
/// the mounts below it.
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

/// Returns false if the kernel is too old or the file system cannot be a lower layer. The folder then stays
/// without an overlay, but is still read-only.
fn mount_overlay(folder: &Path, nothing: &Path) -> bool {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    // Without an upper layer, the kernel requires two lower folders.
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

/// Ignores a target that does not exist: not every kernel has all of these files.
fn bind_over(with: &Path, target: &Path) -> io::Result<()> {
    let flags = MsFlags::MS_BIND;
    match mount(Some(with), target, None::<&str>, flags, None::<&str>) {
        Err(nix::errno::Errno::ENOENT) => Ok(()),
        outcome => Ok(outcome?),
    }
}
