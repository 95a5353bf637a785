//! Limits a container from outside, on resources that all sandboxes of a machine share: the number of
//! terminals and of inotify watches, no new user namespaces, and overlays and masks over the host's programs
//! and `/proc`. Native walls apply these from inside; container engines have no options for them.
//! Entry point: [`run`].

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

use crate::masking::overlay_and_mask;
use crate::plan::SetupStage;
use crate::privileges::namespace_limits;
use crate::root::DEVPTS_OPTIONS;
use crate::supervisor::{SetupContext, SetupResult};

/// Limits the container whose first process is `pid`, and overlays these folders in it. Must be called
/// outside the container, by its owner, in a process with a single thread.
pub fn run(pid: i32, folders: &[PathBuf]) -> ExitCode {
    match fence(pid, folders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let _ = writeln!(std::io::stderr(), "{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Root inside the container.
const ROOT_UID: Uid = Uid::from_raw(0);
const ROOT_GID: Gid = Gid::from_raw(0);

fn fence(pid: i32, folders: &[PathBuf]) -> SetupResult<()> {
    const ENTER: &str = "enter the container's namespaces";
    let open = |path: String| File::open(path).at(SetupStage::Namespaces, ENTER);
    let user = open(format!("/proc/{pid}/ns/user"))?;
    let mounts = open(format!("/proc/{pid}/ns/mnt"))?;
    let limits = open("/proc/sys/user".into())?;
    let shares = namespace_limits();
    // Root on the host may enter the two namespaces in any order. An ordinary user has privileges in the
    // mount namespace only after entering the user namespace.
    let is_inside = setns(&mounts, CloneFlags::CLONE_NEWNS).is_ok();
    let mut apart = None;
    if is_inside {
        limit_terminals()?;
        // Works only if the host's root owns the container's files, as with Docker.
        apart = overlay_and_mask(folders.iter().map(PathBuf::as_path)).ok();
    }
    setns(&user, CloneFlags::CLONE_NEWUSER).at(SetupStage::Namespaces, ENTER)?;
    write_namespace_limits(&limits, &shares)?;
    if !is_inside {
        setns(&mounts, CloneFlags::CLONE_NEWNS).at(SetupStage::Namespaces, ENTER)?;
        limit_terminals()?;
    }
    if apart.is_none() {
        // Only root inside the container can create files there. If the container does not map that user,
        // these calls fail and the caller's user stays.
        let _ = setresgid(ROOT_GID, ROOT_GID, ROOT_GID);
        let _ = setresuid(ROOT_UID, ROOT_UID, ROOT_UID);
        overlay_and_mask(folders.iter().map(PathBuf::as_path))?;
    }
    Ok(())
}

fn limit_terminals() -> SetupResult<()> {
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(
        None::<&str>,
        "/dev/pts",
        None::<&str>,
        flags,
        Some(DEVPTS_OPTIONS),
    )
    .at(SetupStage::Mounts, "limit the number of terminals")
}

/// Writes through the host's `/proc/sys/user`, which shows each process the limits of its own namespace.
fn write_namespace_limits(limits: &File, shares: &[(&str, String)]) -> SetupResult<()> {
    for (name, value) in shares {
        let opened = openat(limits.as_fd(), *name, OFlag::O_WRONLY, Mode::empty());
        opened
            .map_err(std::io::Error::from)
            .and_then(|file| File::from(file).write_all(value.as_bytes()))
            .at(SetupStage::Identity, format!("set {name}"))?;
    }
    Ok(())
}
