//! Resource limits and processor affinity of process 1, inherited by all that it starts.

use std::io;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::resource::{self, getrlimit, setrlimit};
use nix::unistd::Pid;

use crate::plan::{Resource, Rlimit, Stage};
use crate::supervisor::{At, Step};

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
