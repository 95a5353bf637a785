//! Resource limits, CPU affinity and user of process 1. All of its descendants inherit them.

use std::fs;
use std::io::{self, Write};

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::resource::{self, getrlimit, setrlimit};
use nix::unistd::{Pid, Uid, getegid, geteuid, setresuid};

use crate::plan::{Resource, Rlimit, SetupStage};
use crate::supervisor::{SetupContext, SetupResult};
use crate::sys::{self, CloneSide};

/// A sandbox may use one part in this many of the inotify instances and watches of the user that starts it.
/// So it takes at least this many sandboxes to use up all of them.
const INOTIFY_SHARE_DIVISOR: u64 = 8;

/// Limits of a user namespace, as files of `/proc/sys/user`. The limit on nested namespaces is the first.
pub(crate) fn namespace_limits() -> [(&'static str, String); 3] {
    let share = |of: &str, usual: u64| {
        let all = fs::read_to_string(format!("/proc/sys/fs/inotify/{of}"));
        let all = all.ok().and_then(|text| text.trim().parse().ok());
        (all.unwrap_or(usual) / INOTIFY_SHARE_DIVISOR)
            .max(1)
            .to_string()
    };
    [
        ("max_user_namespaces", "0".into()),
        ("max_inotify_instances", share("max_user_instances", 128)),
        ("max_inotify_watches", share("max_user_watches", 65536)),
    ]
}

/// Limits this process's user namespace, as far as the kernel supports that: no nested namespaces, and a
/// share of what the kernel counts per user. Writes through the host's `/proc`, which shows each process
/// the limits of its own namespace.
///
/// `more_walls` leaves out the first limit: a program that sets up more walls needs user namespaces.
pub(crate) fn apply_namespace_limits(more_walls: bool) {
    let limits = namespace_limits();
    for (name, value) in limits.iter().skip(usize::from(more_walls)) {
        // Defence in depth: a kernel without these limits still has the other walls.
        let _ = fs::write(format!("/proc/sys/user/{name}"), value);
    }
}

/// Calls the closure with the effective user `owner`, if this process is root. The new user namespace then
/// belongs to `owner`, and the kernel charges inotify, namespaces and pending signals to that user instead
/// of root. Without the privileges to switch users, they are charged to root.
pub(crate) fn clone_as_owner(
    owner: Option<u32>,
    make: impl FnOnce() -> io::Result<CloneSide>,
) -> io::Result<CloneSide> {
    const KEEP_ALL: u64 = libc::SECBIT_NO_SETUID_FIXUP as u64;
    let same = Uid::from_raw(u32::MAX);
    let root = geteuid();
    let (Some(owner), true) = (owner, root.is_root()) else {
        return make();
    };
    if sys::prctl(libc::PR_SET_SECUREBITS, KEEP_ALL).is_err() {
        return make();
    }
    setresuid(same, Uid::from_raw(owner), same)?;
    // A change of user makes a process undumpable. The child would inherit that, and could not open its
    // own `oom_score_adj` for writing.
    let made = sys::prctl(libc::PR_SET_DUMPABLE, 1).and_then(|()| make());
    // In the child, the new user namespace has already reset the user and the secure bits.
    if !matches!(made, Ok(CloneSide::Child)) {
        setresuid(same, root, same)?;
        sys::prctl(libc::PR_SET_SECUREBITS, 0)?;
    }
    made
}

/// Sets the limits of this process, or of `process`.
pub(crate) fn apply_rlimits(limits: &[Rlimit], process: Option<Pid>) -> SetupResult<()> {
    for limit in limits {
        let resource = match limit.resource {
            Resource::Core => resource::Resource::RLIMIT_CORE,
            Resource::Data => resource::Resource::RLIMIT_DATA,
            Resource::FileSize => resource::Resource::RLIMIT_FSIZE,
            Resource::LockedMemory => resource::Resource::RLIMIT_MEMLOCK,
            Resource::MessageQueues => resource::Resource::RLIMIT_MSGQUEUE,
            Resource::OpenFiles => resource::Resource::RLIMIT_NOFILE,
            Resource::PendingSignals => resource::Resource::RLIMIT_SIGPENDING,
            Resource::Processes => resource::Resource::RLIMIT_NPROC,
        };
        let step = || format!("limit {:?}", limit.resource);
        let (_, hard) = getrlimit(resource).at(SetupStage::Confinement, step())?;
        let value = limit.value.min(hard);
        match process {
            None => setrlimit(resource, value, value).map_err(io::Error::from),
            Some(process) => sys::set_process_limit(process, resource, value),
        }
        .at(SetupStage::Confinement, step())?;
    }
    Ok(())
}

/// Enters a user namespace that maps only this process's user, to `number`.
pub(crate) fn enter_user_namespace(number: u32) -> SetupResult<()> {
    let (uid, gid) = (geteuid(), getegid());
    let step = |what: &str| format!("{what} of user {number}");
    unshare(CloneFlags::CLONE_NEWUSER).at(SetupStage::Identity, step("enter a namespace"))?;
    // Never creates the file: a kernel without `setgroups` does not need it written.
    let write = |file: &str, text: &str| {
        let mut file = fs::File::options()
            .write(true)
            .open(format!("/proc/self/{file}"))?;
        file.write_all(text.as_bytes())
    };
    match write("setgroups", "deny") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
    .at(SetupStage::Identity, step("deny changes to the groups"))?;
    write("gid_map", &format!("{number} {gid} 1"))
        .and_then(|()| write("uid_map", &format!("{number} {uid} 1")))
        .at(SetupStage::Identity, step("map this process to the id"))
}

pub(crate) fn pin_to_processors(processors: &[usize]) -> SetupResult<()> {
    let stay = || -> io::Result<()> {
        let mut set = CpuSet::new();
        for processor in processors {
            set.set(*processor)?;
        }
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    };
    stay().at(SetupStage::Confinement, "set the CPU affinity")
}
