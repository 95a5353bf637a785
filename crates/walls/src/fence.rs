//! Bounds on what all sandboxes of a machine share, put around a container from outside: how many
//! terminals it may open, how many watches, that it makes no user namespaces of its own, and what
//! it sees of the host's programs and of `/proc`. Native walls set them from within; an engine has
//! no words for them. Entry point: [`serve`].

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;

use nix::fcntl::{OFlag, openat};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, setns};
use nix::sys::stat::Mode;
use nix::unistd::{Gid, Uid, setresgid, setresuid};

use crate::apart::set_apart;
use crate::plan::Stage;
use crate::privileges::namespace_limits;
use crate::root::TERMINALS;
use crate::supervisor::{At, Step};

/// Bounds the container whose first process has this number, and sets these folders of it apart. Must be called in a process with a
/// single thread, outside, by the container's owner.
pub fn serve(pid: i32, folders: &[PathBuf]) -> ExitCode {
    match fence(pid, folders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

/// The container's own.
const ROOT: Uid = Uid::from_raw(0);
const ROOT_GROUP: Gid = Gid::from_raw(0);

fn fence(pid: i32, folders: &[PathBuf]) -> Step<()> {
    const ENTER: &str = "enter the container's namespaces";
    let open = |path: String| File::open(path).at(Stage::Namespaces, ENTER);
    let user = open(format!("/proc/{pid}/ns/user"))?;
    let mounts = open(format!("/proc/{pid}/ns/mnt"))?;
    let limits = open("/proc/sys/user".into())?;
    let shares = namespace_limits();
    // The host's root enters either first. An ordinary user has rights in the mount namespace
    // only as the user of the container.
    let is_inside = setns(&mounts, CloneFlags::CLONE_NEWNS).is_ok();
    let mut apart = None;
    if is_inside {
        bound_terminals()?;
        // Only where the container's files are the host's root's too: Docker's.
        apart = set_apart(folders.iter().map(PathBuf::as_path)).ok();
    }
    setns(&user, CloneFlags::CLONE_NEWUSER).at(Stage::Namespaces, ENTER)?;
    bound_users(&limits, &shares)?;
    if !is_inside {
        setns(&mounts, CloneFlags::CLONE_NEWNS).at(Stage::Namespaces, ENTER)?;
        bound_terminals()?;
    }
    if apart.is_none() {
        // Nobody else can make a file there. A container without such a user has the caller.
        let _ = setresgid(ROOT_GROUP, ROOT_GROUP, ROOT_GROUP);
        let _ = setresuid(ROOT, ROOT, ROOT);
        set_apart(folders.iter().map(PathBuf::as_path))?;
    }
    Ok(())
}

fn bound_terminals() -> Step<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(
        None::<&str>,
        "/dev/pts",
        None::<&str>,
        flags,
        Some(TERMINALS),
    )
    .at(Stage::Mounts, "bound the terminals")
}

/// Through the host's `/proc`, which shows its own namespace to each process.
fn bound_users(limits: &File, shares: &[(&str, String)]) -> Step<()> {
    for (name, value) in shares {
        let opened = openat(limits.as_fd(), *name, OFlag::O_WRONLY, Mode::empty());
        opened
            .map_err(std::io::Error::from)
            .and_then(|file| File::from(file).write_all(value.as_bytes()))
            .at(Stage::Identity, format!("set {name}"))?;
    }
    Ok(())
}
