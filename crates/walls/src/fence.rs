//! Limits a container from outside, on resources that all sandboxes of a machine share: the number of
//! terminals and of inotify watches, no new user namespaces, and overlays and masks over the host's programs
//! and `/proc`. Native walls apply these from inside; container engines have no options for them.
//! Entry point: [`serve`].

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

/// Limits the container whose first process is `pid`, and overlays these folders in it. Must be called
/// outside the container, by its owner, in a process with a single thread.
pub fn serve(pid: i32, folders: &[PathBuf]) -> ExitCode {
    match fence(pid, folders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Root inside the container.
const ROOT: Uid = Uid::from_raw(0);
const ROOT_GROUP: Gid = Gid::from_raw(0);

fn fence(pid: i32, folders: &[PathBuf]) -> Step<()> {
    const ENTER: &str = "enter the container's namespaces";
    let open = |path: String| File::open(path).at(Stage::Namespaces, ENTER);
    let user = open(format!("/proc/{pid}/ns/user"))?;
    let mounts = open(format!("/proc/{pid}/ns/mnt"))?;
    let limits = open("/proc/sys/user".into())?;
    let shares = namespace_limits();
    // Root on the host may enter the two namespaces in any order. An ordinary user has privileges in the
    // mount namespace only after entering the user namespace.
    let is_inside = setns(&mounts, CloneFlags::CLONE_NEWNS).is_ok();
    let mut apart = None;
    if is_inside {
        bound_terminals()?;
        // Works only if the host's root owns the container's files, as with Docker.
        apart = set_apart(folders.iter().map(PathBuf::as_path)).ok();
    }
    setns(&user, CloneFlags::CLONE_NEWUSER).at(Stage::Namespaces, ENTER)?;
    bound_users(&limits, &shares)?;
    if !is_inside {
        setns(&mounts, CloneFlags::CLONE_NEWNS).at(Stage::Namespaces, ENTER)?;
        bound_terminals()?;
    }
    if apart.is_none() {
        // Only root inside the container can create files there. If the container does not map that user,
        // these calls fail and the caller's user stays.
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
    .at(Stage::Mounts, "limit the number of terminals")
}

/// Writes through the host's `/proc/sys/user`, which shows each process the limits of its own namespace.
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
