//! Resource limits, processor affinity and user of process 1, inherited by all that it starts.

use std::fs;
use std::io::{self, Write};

use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::resource::{self, getrlimit, setrlimit};
use nix::unistd::{Pid, getegid, geteuid};

use crate::plan::{Resource, Rlimit, Stage};
use crate::supervisor::{At, Step};
use crate::sys;

/// Limits of a user namespace; that on further ones first.
pub(crate) const NAMESPACE_LIMITS: &[(&str, &str)] = &[
    ("max_user_namespaces", "0"),
    ("max_inotify_instances", "32"),
];

/// Limits of the user namespace itself, where the kernel has them: no namespaces below, and a
/// share of what is counted for each user. Through the host's `/proc`, which shows the own
/// namespace to each process.
///
/// A program that puts up more walls needs user namespaces for them.
pub(crate) fn limit_namespace(more_walls: bool) {
    let limits = NAMESPACE_LIMITS.iter().skip(usize::from(more_walls));
    for (name, value) in limits {
        // A second wall behind others: a kernel without it has those.
        let _ = fs::write(format!("/proc/sys/user/{name}"), value);
    }
}

/// Limits this process, or another that this one may change.
pub(crate) fn apply_rlimits(limits: &[Rlimit], process: Option<Pid>) -> Step<()> {
    for limit in limits {
        let resource = match limit.resource {
            Resource::Core => resource::Resource::RLIMIT_CORE,
            Resource::Data => resource::Resource::RLIMIT_DATA,
            Resource::FileSize => resource::Resource::RLIMIT_FSIZE,
            Resource::LockedMemory => resource::Resource::RLIMIT_MEMLOCK,
            Resource::MessageQueues => resource::Resource::RLIMIT_MSGQUEUE,
            Resource::OpenFiles => resource::Resource::RLIMIT_NOFILE,
            Resource::Processes => resource::Resource::RLIMIT_NPROC,
        };
        let step = || format!("limit {:?}", limit.resource);
        let (_, hard) = getrlimit(resource).at(Stage::Confinement, step())?;
        let value = limit.value.min(hard);
        match process {
            None => setrlimit(resource, value, value).map_err(io::Error::from),
            Some(process) => sys::limit_process(process, resource, value),
        }
        .at(Stage::Confinement, step())?;
    }
    Ok(())
}

/// Enters a user namespace in which this process has another number and nobody else has any.
pub(crate) fn be_user(number: u32) -> Step<()> {
    let (uid, gid) = (geteuid(), getegid());
    let step = |what: &str| format!("{what} of user {number}");
    unshare(CloneFlags::CLONE_NEWUSER).at(Stage::Identity, step("enter a namespace"))?;
    // Not made where it is not there: nothing asks for it then.
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
    .at(Stage::Identity, step("close the groups"))?;
    write("gid_map", &format!("{number} {gid} 1"))
        .and_then(|()| write("uid_map", &format!("{number} {uid} 1")))
        .at(Stage::Identity, step("take on the number"))
}

pub(crate) fn stay_on(processors: &[usize]) -> Step<()> {
    let stay = || -> io::Result<()> {
        let mut set = CpuSet::new();
        for processor in processors {
            set.set(*processor)?;
        }
        Ok(sched_setaffinity(Pid::from_raw(0), &set)?)
    };
    stay().at(Stage::Confinement, "choose processors")
}
