//! The mounts of a machine: the kernel's own, the image's disk, a root that walls can be built on.
//! The workspace has a process of its own.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::unistd::{chdir, chroot};

use super::{At, IMAGE, Step, WORKSPACE};

const DISK: &str = "/dev/vda";

/// Where what is to be the root is put together.
const NEW_ROOT: &str = "/new";

/// What the kernel shows of itself, and control groups that hand all controllers down.
pub(super) fn system() -> Step<()> {
    let plain = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    make("devtmpfs", "/dev", plain - MsFlags::MS_NOEXEC, "mode=0755")?;
    make("proc", "/proc", plain | MsFlags::MS_NODEV, "")?;
    make("sysfs", "/sys", plain | MsFlags::MS_NODEV, "")?;
    make("cgroup2", "/sys/fs/cgroup", plain | MsFlags::MS_NODEV, "")?;
    fs::write(
        "/sys/fs/cgroup/cgroup.subtree_control",
        "+memory +cpu +pids",
    )
    .at("hand controllers down")
}

/// Mounts the image, whatever kind of file system its disk holds.
pub(super) fn image() -> Step<()> {
    let flags = MsFlags::MS_RDONLY | MsFlags::MS_NODEV | MsFlags::MS_NOSUID;
    let mut outcome = Err(Errno::ENODEV);
    fs::create_dir_all(IMAGE).at("make the image's folder")?;
    for kind in ["erofs", "squashfs", "ext4"] {
        outcome = mount(Some(DISK), IMAGE, Some(kind), flags, None::<&str>);
        if outcome.is_ok() {
            break;
        }
    }
    outcome.at("mount the image's disk")
}

/// Moves to a root of its own: the kernel lets nobody leave the initial file system, and the walls
/// are built by leaving.
pub(super) fn own_root() -> Step<()> {
    make(
        "tmpfs",
        NEW_ROOT,
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV,
        "size=1m,mode=0755",
    )?;
    for mounted in ["/dev", "/proc", "/sys", IMAGE] {
        let target = format!("{NEW_ROOT}{mounted}");
        move_mount(mounted, &target)?;
    }
    for folder in ["/tmp", WORKSPACE] {
        fs::create_dir_all(format!("{NEW_ROOT}{folder}")).at("furnish the root")?;
    }
    chdir(NEW_ROOT).at("change the root")?;
    mount(Some("."), "/", None::<&str>, MsFlags::MS_MOVE, None::<&str>).at("change the root")?;
    chroot(".").at("change the root")?;
    chdir("/").at("change the root")
}

fn move_mount(from: &str, to: &str) -> Step<()> {
    fs::create_dir_all(to).at(format!("make `{to}`"))?;
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>).at(format!("move `{from}`"))
}

fn make(kind: &str, target: &str, flags: MsFlags, options: &str) -> Step<()> {
    if !Path::new(target).is_dir() {
        fs::create_dir_all(target).at(format!("make `{target}`"))?;
    }
    match mount(Some(kind), target, Some(kind), flags, Some(options)) {
        // Some kernels mount their own devices.
        Err(Errno::EBUSY) => Ok(()),
        outcome => outcome.at(format!("mount {kind} at `{target}`")),
    }
}
