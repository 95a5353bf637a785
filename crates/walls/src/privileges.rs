//! Resource limits and processor affinity of process 1, inherited by all that it starts.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{self, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::plan::{Resource, Rlimit, Stage};
use crate::supervisor::{At, Step};

/// Limits of the user namespace itself, where the kernel has them: no namespaces below, and a
/// share of what is counted for each user. Through the host's `/proc`, which shows the own
/// namespace to each process.
pub(crate) fn limit_namespace() {
    for (name, value) in [
        ("max_user_namespaces", "0"),
        ("max_inotify_instances", "32"),
    ] {
        // A second wall behind others: a kernel without it has those.
        let _ = std::fs::write(format!("/proc/sys/user/{name}"), value);
    }
}

pub(crate) fn apply_rlimits(limits: &[Rlimit]) -> Step<()> {
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
        setrlimit(resource, value, value).at(Stage::Confinement, step())?;
    }
    Ok(())
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
