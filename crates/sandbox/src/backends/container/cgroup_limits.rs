//! The limits that the kernel really enforces for a container, read back from its cgroups, and the
//! ones that the guest has to enforce instead.
//! Entry type: [`CgroupLimits`].

use std::fs;
use std::path::{Path, PathBuf};

use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;
use walls::cgroups::{self, CgroupMembership, Controller};
use walls::plan::{CgroupVersion, Confinement};

use super::super::native::wall_plan::{GUEST_PIDS, rlimits};
use super::super::root_entries::writable;
use crate::limits::{LimitEnforcement, LimitEnforcer, LimitKind, SandboxLimits, enforcement_with};
use crate::spec::SandboxSpec;

/// The period of the CPU quota, in microseconds.
pub(crate) const CPU_PERIOD_MICROS: u64 = 100_000;

/// Microseconds of CPU time in each period.
pub(crate) fn quota(limits: &SandboxLimits) -> u64 {
    ((limits.cpus * CPU_PERIOD_MICROS as f64) as u64).max(1000)
}

/// Processes and threads of the container, including the guest's own.
pub(crate) fn pids(limits: &SandboxLimits) -> u32 {
    limits.pids + GUEST_PIDS
}

/// The limits that the kernel enforces for the container as a whole.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct CgroupLimits {
    memory: Option<CgroupVersion>,
    cpu: Option<CgroupVersion>,
    pids: Option<CgroupVersion>,
    /// Whether socket memory is limited too.
    sockets: bool,
    kill_counter: Option<PathBuf>,
}

impl CgroupLimits {
    /// Reads the cgroups of the container's first process.
    pub(crate) fn of(pid: Option<i32>, limits: &SandboxLimits) -> Self {
        let groups = pid.map(cgroups::memberships).unwrap_or_default();
        Self::read(&groups, limits)
    }

    fn read(groups: &[CgroupMembership], limits: &SandboxLimits) -> Self {
        let mut holds = Self::default();
        for group in groups {
            let version = group.version;
            let is = |name: &str| {
                version == CgroupVersion::V2 || group.controllers.iter().any(|one| one == name)
            };
            let (memory, counter) = match version {
                CgroupVersion::V1 => ("memory.limit_in_bytes", "memory.oom_control"),
                CgroupVersion::V2 => ("memory.max", "memory.events"),
            };
            if is("memory") && is_limited_to(&group.folder, memory, limits.memory) {
                holds.memory = Some(version);
                holds.sockets = version == CgroupVersion::V2 || bound_sockets(group, limits);
                holds.kill_counter = Some(group.folder.join(counter));
            }
            if is("cpu") && limits_cpus(&group.folder, version, limits) {
                holds.cpu = Some(version);
            }
            if is("pids") && is_limited_to(&group.folder, "pids.max", u64::from(pids(limits))) {
                holds.pids = Some(version);
            }
        }
        holds
    }

    /// The enforcer of each limit. `wall` is what ends the sandbox at its deadline.
    pub(crate) fn enforcements(
        &self,
        limits: &SandboxLimits,
        wall: LimitEnforcer,
    ) -> Vec<LimitEnforcement> {
        let by = |controller| {
            let version = match controller {
                Controller::Memory => self.memory,
                Controller::Cpu => self.cpu,
                Controller::Pids => self.pids,
            };
            version.map(LimitEnforcer::from)
        };
        let all = enforcement_with(limits, by, processors().len(), wall);
        let uncounted = self.memory.is_some() && !self.sockets;
        let but = |one: LimitEnforcement| match one.limit {
            LimitKind::Memory if uncounted => one.but("buffers of sockets are counted apart"),
            _ => one,
        };
        all.into_iter().map(but).collect()
    }

    /// The confinement that the guest applies to itself.
    pub(crate) fn confinement(&self, spec: &SandboxSpec, user: Option<u32>) -> Confinement {
        let limits = &spec.limits;
        let wanted = limits.cpus.ceil() as usize;
        Confinement {
            rlimits: rlimits(limits, self.memory.is_some(), self.pids.is_some()),
            processors: self
                .cpu
                .is_none()
                .then(|| processors().into_iter().take(wanted).collect()),
            writable: writable(&spec.root),
            user,
            is_gvisor: false,
        }
    }

    /// The file in which the kernel counts kills for lack of memory.
    pub(crate) fn kill_counter(&self) -> Option<&Path> {
        self.kill_counter.as_deref()
    }
}

/// The number of kills so far.
pub(crate) fn read_memory_kills(counter: Option<&Path>) -> u64 {
    let text = counter.and_then(|file| fs::read_to_string(file).ok());
    text.as_deref()
        .and_then(cgroups::parse_oom_kills)
        .unwrap_or(0)
}

/// Version 1 limits socket buffers separately, and engines do not set that limit.
fn bound_sockets(group: &CgroupMembership, limits: &SandboxLimits) -> bool {
    let file = group.folder.join("memory.kmem.tcp.limit_in_bytes");
    let write = |file: &Path| -> std::io::Result<()> {
        let mut open = fs::OpenOptions::new().write(true).open(file)?;
        std::io::Write::write_all(&mut open, (limits.memory / 4).to_string().as_bytes())
    };
    // A kernel without the file does not account socket buffers.
    !file.exists() || write(&file).is_ok()
}

fn is_limited_to(folder: &Path, file: &str, limit: u64) -> bool {
    let set = fs::read_to_string(folder.join(file)).ok();
    set.and_then(|text| text.trim().parse::<u64>().ok())
        .is_some_and(|set| set <= limit)
}

fn limits_cpus(folder: &Path, version: CgroupVersion, limits: &SandboxLimits) -> bool {
    let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default();
    let text = match version {
        CgroupVersion::V1 => format!("{} {}", read("cpu.cfs_quota_us"), read("cpu.cfs_period_us")),
        CgroupVersion::V2 => read("cpu.max"),
    };
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map_while(|one| one.parse().ok())
        .collect();
    // Compared as fractions of one processor, cross-multiplied to stay in integers.
    matches!(numbers[..], [share, period] if share * CPU_PERIOD_MICROS <= quota(limits) * period)
}

fn processors() -> Vec<usize> {
    let set = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count())
        .filter(|number| set.is_set(*number).unwrap_or(false))
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// A cgroup folder with these files.
    fn group(
        version: CgroupVersion,
        controllers: &[&str],
        files: &[(&str, &str)],
    ) -> (tempfile::TempDir, CgroupMembership) {
        let folder = tempfile::tempdir().unwrap();
        for (name, content) in files {
            fs::write(folder.path().join(name), content).unwrap();
        }
        let membership = CgroupMembership {
            version,
            controllers: controllers.iter().map(|one| (*one).to_owned()).collect(),
            folder: folder.path().to_owned(),
        };
        (folder, membership)
    }

    #[test]
    fn only_what_the_kernel_has_counts() {
        let limits = SandboxLimits {
            memory: 64 << 20,
            cpus: 0.5,
            pids: 10,
            ..SandboxLimits::default()
        };
        let check =
            |version, controllers: &[&str], files: &[(&str, &str)], expect: &[LimitKind]| {
                let (_folder, group) = group(version, controllers, files);
                let holds = CgroupLimits::read(&[group], &limits);
                let enforced = holds.enforcements(&limits, LimitEnforcer::Guest);
                let by_group =
                    |one: &&LimitEnforcement| one.enforcer == LimitEnforcer::from(version);
                let found: Vec<_> = enforced
                    .iter()
                    .filter(by_group)
                    .map(|one| one.limit)
                    .collect();
                assert_eq!(found, expect, "{files:?}");
                assert_eq!(
                    holds.kill_counter().is_some(),
                    expect.contains(&LimitKind::Memory)
                );
            };
        let (v1, v2) = (CgroupVersion::V1, CgroupVersion::V2);
        let (memory, cpu, pids) = (LimitKind::Memory, LimitKind::Cpu, LimitKind::Pids);
        check(
            v1,
            &["memory"],
            &[("memory.limit_in_bytes", "67108864\n")],
            &[memory],
        );
        check(
            v1,
            &["memory"],
            &[("memory.limit_in_bytes", "9223372036854771712\n")],
            &[],
        );
        // A file of another controller must be ignored.
        check(v1, &["cpu"], &[("memory.limit_in_bytes", "1\n")], &[]);
        let quota = [
            ("cpu.cfs_quota_us", "50000\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ];
        check(v1, &["cpu", "cpuacct"], &quota, &[cpu]);
        let none = [
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ];
        check(v1, &["cpu"], &none, &[]);
        check(v1, &["pids"], &[("pids.max", "14\n")], &[pids]);
        check(v1, &["pids"], &[("pids.max", "max\n")], &[]);
        let all = [
            ("memory.max", "67108864"),
            ("cpu.max", "25000 50000"),
            ("pids.max", "14"),
        ];
        check(v2, &[""], &all, &[memory, cpu, pids]);
        let more = [
            ("memory.max", "max"),
            ("cpu.max", "max 100000"),
            ("pids.max", "15"),
        ];
        check(v2, &[""], &more, &[]);
    }
}
