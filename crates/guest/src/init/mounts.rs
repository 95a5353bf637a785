//! The mounts of a machine: the kernel's file systems, the image's disk, and a root in which walls can be
//! set up. A separate process mounts the workspace.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};

use super::{IMAGE_MOUNT, InitContext, InitResult, WORKSPACE_MOUNT};

const IMAGE_DISK: &str = "/dev/vda";

/// Where the new root is assembled.
const NEW_ROOT: &str = "/new";

/// Mounts the kernel's file systems, and enables all controllers for child control groups.
pub(super) fn mount_kernel_filesystems() -> InitResult<()> {
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount_filesystem("devtmpfs", "/dev", plain - MsFlags::MS_NOEXEC, "mode=0755")?;
    mount_filesystem("proc", "/proc", plain | MsFlags::MS_NODEV, "")?;
    mount_filesystem("sysfs", "/sys", plain | MsFlags::MS_NODEV, "")?;
    mount_filesystem("cgroup2", "/sys/fs/cgroup", plain | MsFlags::MS_NODEV, "")?;
    fs::write(
        "/sys/fs/cgroup/cgroup.subtree_control",
        "+memory +cpu +pids",
    )
    .at("enable the cgroup controllers")
}

/// Mounts the image, trying each supported file system.
pub(super) fn mount_image() -> InitResult<()> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    let mut outcome = Err(Errno::ENODEV);
    fs::create_dir_all(IMAGE_MOUNT).at("make the image's folder")?;
    for kind in ["erofs", "squashfs", "ext4"] {
        outcome = mount(
            Some(IMAGE_DISK),
            IMAGE_MOUNT,
            Some(kind),
            flags,
            None::<&str>,
        );
        if outcome.is_ok() {
            break;
        }
    }
    outcome.at("mount the image's disk")
}

/// Switches to a tmpfs root. The walls need `pivot_root`, which the kernel does not allow from the initial
/// file system.
pub(super) fn switch_root() -> InitResult<()> {
    mount_filesystem(
        "tmpfs",
        NEW_ROOT,
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        "size=1m,mode=0755",
    )?;
    for mounted in ["/dev", "/proc", "/sys", IMAGE_MOUNT] {
        let target = format!("{NEW_ROOT}{mounted}");
        move_mount(mounted, &target)?;
    }
    for folder in ["/tmp", WORKSPACE_MOUNT] {
        fs::create_dir_all(format!("{NEW_ROOT}{folder}")).at("populate the root")?;
    }
    chdir(NEW_ROOT).at("change the root")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).at("change the root")?;
    chroot(".").at("change the root")?;
    chdir("/").at("change the root")
}

fn move_mount(from: &str, to: &str) -> InitResult<()> {
    fs::create_dir_all(to).at(format!("make `{to}`"))?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>).at(format!("move `{from}`"))
}

fn mount_filesystem(kind: &str, target: &str, flags: MsFlags, options: &str) -> InitResult<()> {
    if !Path::new(target).is_dir() {
        fs::create_dir_all(target).at(format!("make `{target}`"))?;
    }
    match mount(Some(kind), target, Some(kind), flags, Some(options)) {
        // Some kernels mount devtmpfs themselves.
        Err(Errno::EBUSY) => Ok(()),
        outcome => outcome.at(format!("mount {kind} at `{target}`")),
    }
}
