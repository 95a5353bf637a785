//! Limits, and the mechanism that enforces each of them on this machine. Decides only; the walls
//! enforce.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use walls::cgroups::{Available, Controller};
use walls::plan::GroupVersion;

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// Bytes of memory, files on tmpfs included.
    pub memory: u64,
    /// Processors; fractions are shares of one.
    pub cpus: f64,
    /// Processes and threads.
    pub pids: u32,
    /// Bytes by which the workspace may grow.
    pub disk: u64,
    /// Open files of one process.
    pub open_files: u64,
    /// Wall time of the whole sandbox.
    pub wall: Option<Duration>,
    /// Bytes that one command may print.
    pub output: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            memory: 2 << 30,
            cpus: 2.0,
            pids: 512,
            disk: 4 << 30,
            open_files: 4096,
            wall: None,
            output: None,
        }
    }
}

/// A limit that is too small to start a sandbox or run a shell.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {} limit of at least {least} is needed", limit.name())]
pub struct LimitTooSmall {
    pub limit: LimitKind,
    /// In the notation of the settings.
    pub least: String,
}

impl Limits {
    /// The smallest limits with which a sandbox starts behind native walls and `bash` and `git`
    /// run.
    pub const LEAST: Self = Self {
        memory: 8 << 20,
        cpus: 0.01,
        pids: 8,
        disk: 1 << 20,
        open_files: 16,
        wall: None,
        output: None,
    };

    /// Rejects limits below [`Limits::LEAST`], which would only fail later.
    pub fn check(&self) -> Result<(), LimitTooSmall> {
        let least = Self::LEAST;
        let too_small = |limit, least: String| Err(LimitTooSmall { limit, least });
        match () {
            () if self.memory < least.memory => too_small(LimitKind::Memory, "8 MiB".to_owned()),
            () if self.cpus.is_nan() || self.cpus < least.cpus => {
                too_small(LimitKind::Cpu, least.cpus.to_string())
            }
            () if self.pids < least.pids => too_small(LimitKind::Pids, least.pids.to_string()),
            () if self.disk < least.disk => too_small(LimitKind::Disk, "1 MiB".to_owned()),
            () if self.open_files < least.open_files => {
                too_small(LimitKind::OpenFiles, least.open_files.to_string())
            }
            () => Ok(()),
        }
    }
}

/// Bytes of the disk limit for each inode: small files use up a disk too.
pub(crate) const BYTES_PER_INODE: u64 = 4096;

/// The kinds of limits, in display order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitKind {
    Memory,
    Cpu,
    Pids,
    Disk,
    OpenFiles,
    WallTime,
    Output,
}

impl LimitKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
            Self::Disk => "disk",
            Self::OpenFiles => "open files",
            Self::WallTime => "wall time",
            Self::Output => "output",
        }
    }
}

/// The mechanism that enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Enforcer {
    CgroupV2,
    CgroupV1,
    /// `RLIMIT_*`: the kernel, per process unless noted otherwise.
    Rlimit,
    /// The set of processors that the sandbox may use.
    Affinity,
    /// The virtual machine, and the exact limit by a cgroup inside it.
    Vm,
    /// The kernel: a quota of the workspace's file system.
    ProjectQuota,
    /// The kernel: the workspace's file system is no larger than the limit.
    BoundedFileSystem,
    /// The guest measures the growth of the workspace's file system, and kills.
    Scan,
    /// The guest polls usage, and kills.
    Guest,
    /// The guest, with the supervisor as backup.
    GuestAndSupervisor,
    /// The guest, with the container engine as backup.
    GuestAndEngine,
    Nothing,
}

impl fmt::Display for Enforcer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::CgroupV2 => "cgroup v2",
            Self::CgroupV1 => "cgroup v1",
            Self::Rlimit => "rlimit",
            Self::Affinity => "cpu affinity",
            Self::Vm => "virtual machine",
            Self::ProjectQuota => "project quota",
            Self::BoundedFileSystem => "bounded file system",
            Self::Scan => "scan (growth of the file system every 50 ms)",
            Self::Guest => "guest",
            Self::GuestAndSupervisor => "guest and supervisor",
            Self::GuestAndEngine => "guest and container engine",
            Self::Nothing => "nothing",
        })
    }
}

/// One limit with its enforcer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Enforcement {
    pub limit: LimitKind,
    pub value: String,
    pub enforcer: Enforcer,
    /// Where enforcement is weaker than the limit.
    pub caveat: Option<String>,
}

impl Enforcement {
    fn new(limit: LimitKind, value: impl Into<String>, enforcer: Enforcer) -> Self {
        Self {
            limit,
            value: value.into(),
            enforcer,
            caveat: None,
        }
    }

    pub(crate) fn but(mut self, caveat: impl Into<String>) -> Self {
        self.caveat = Some(caveat.into());
        self
    }

    /// Whether the limit is enforced exactly.
    pub fn is_full(&self) -> bool {
        self.enforcer != Enforcer::Nothing && self.caveat.is_none()
    }
}

impl From<GroupVersion> for Enforcer {
    fn from(version: GroupVersion) -> Self {
        match version {
            GroupVersion::V1 => Self::CgroupV1,
            GroupVersion::V2 => Self::CgroupV2,
        }
    }
}

/// What enforces each limit behind native walls.
pub(crate) fn enforce(limits: &Limits, groups: &Available, processors: usize) -> Vec<Enforcement> {
    let group = |controller| {
        groups
            .home(controller)
            .map(|home| Enforcer::from(home.version))
    };
    enforce_by(limits, group, processors, Enforcer::GuestAndSupervisor)
}

/// The enforcer of each limit, given the enforcer of each cgroup controller and the enforcer of
/// the deadline (`wall`).
pub(crate) fn enforce_by(
    limits: &Limits,
    group: impl Fn(Controller) -> Option<Enforcer>,
    processors: usize,
    wall: Enforcer,
) -> Vec<Enforcement> {
    let memory = Enforcement::new(
        LimitKind::Memory,
        bytes(limits.memory),
        group(Controller::Memory).unwrap_or(Enforcer::Rlimit),
    );
    let memory = match memory.enforcer {
        Enforcer::Rlimit => memory.but(
            "private memory of each process by itself, and not what processes share or keep in \
                 memory files: no cgroup is delegated to this user",
        ),
        _ => memory,
    };
    let cpu = |enforcer| Enforcement::new(LimitKind::Cpu, limits.cpus.to_string(), enforcer);
    let cpu = match group(Controller::Cpu) {
        Some(enforcer) => cpu(enforcer),
        None if limits.cpus.fract() == 0.0 || limits.cpus >= processors as f64 => {
            cpu(Enforcer::Affinity)
        }
        None => cpu(Enforcer::Affinity).but(format!(
            "whole processors only ({}): no cgroup is delegated to this user",
            limits.cpus.ceil()
        )),
    };
    // The kernel counts RLIMIT_NPROC per user namespace, and each sandbox has its own.
    let pids = group(Controller::Pids).unwrap_or(Enforcer::Rlimit);
    let deadline = match limits.wall {
        Some(wall) => format!("{wall:?}"),
        None => "none set".to_owned(),
    };
    let output = limits.output.map_or("none set".to_owned(), bytes);
    vec![
        memory,
        cpu,
        Enforcement::new(LimitKind::Pids, limits.pids.to_string(), pids),
        Enforcement::new(LimitKind::Disk, bytes(limits.disk), Enforcer::Scan),
        Enforcement::new(
            LimitKind::OpenFiles,
            limits.open_files.to_string(),
            Enforcer::Rlimit,
        ),
        Enforcement::new(LimitKind::WallTime, deadline, wall),
        Enforcement::new(LimitKind::Output, output, Enforcer::Guest),
    ]
}

/// The enforcer of each limit inside gVisor: its kernel and the guest. The host's cgroups bound the
/// whole, with some extra room for gVisor itself.
pub(crate) fn enforce_in_gvisor(
    limits: &Limits,
    groups: &Available,
    processors: usize,
) -> Vec<Enforcement> {
    let change = |enforcement: Enforcement| match enforcement.limit {
        // gVisor's kernel has no such limit, and reaching the host's limit would end the whole
        // sandbox.
        LimitKind::Memory => {
            let value = enforcement.value;
            let memory = Enforcement::new(LimitKind::Memory, value, Enforcer::Guest);
            match groups.home(Controller::Memory) {
                Some(_) => memory.but(
                    "all but the buffers of gVisor's own kernel: the cgroup around it bounds \
                     those, and past it the whole sandbox ends",
                ),
                None => memory.but(
                    "memory that grows between two polls is not stopped: \
                     no cgroup is delegated to this user",
                ),
            }
        }
        LimitKind::Pids => Enforcement {
            enforcer: Enforcer::Rlimit,
            ..enforcement
        },
        _ => enforcement,
    };
    let native = enforce(limits, groups, processors);
    native.into_iter().map(change).collect()
}

/// The enforcer of each limit in a virtual machine, where all cgroup controllers are available.
pub(crate) fn enforce_in_machine(limits: &Limits) -> Vec<Enforcement> {
    enforce(limits, &Available::unified("/"), 0)
        .into_iter()
        .map(|enforcement| match enforcement.limit {
            LimitKind::Memory | LimitKind::Cpu => Enforcement {
                enforcer: Enforcer::Vm,
                ..enforcement
            },
            _ => enforcement,
        })
        .collect()
}

/// The enforcer of each limit without walls: only the guest.
pub(crate) fn enforce_without_walls(limits: &Limits) -> Vec<Enforcement> {
    enforce(limits, &Available::default(), 0)
        .into_iter()
        .map(|enforcement| match enforcement.limit {
            LimitKind::WallTime | LimitKind::Output => Enforcement {
                enforcer: Enforcer::Guest,
                ..enforcement
            },
            _ => Enforcement {
                enforcer: Enforcer::Nothing,
                caveat: None,
                ..enforcement
            },
        })
        .collect()
}

/// Formats a size in the notation of the settings.
pub fn bytes(size: u64) -> String {
    for (unit, name) in [
        (1 << 40, "T"),
        (1 << 30, "G"),
        (1 << 20, "M"),
        (1 << 10, "K"),
    ] {
        if size >= unit && size.is_multiple_of(unit) {
            return format!("{}{name}", size / unit);
        }
    }
    size.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_they_are_written() {
        let check = |size, expect: &str| assert_eq!(bytes(size), expect);
        check(0, "0");
        check(1023, "1023");
        check(512 << 20, "512M");
        check(1 << 30, "1G");
        check((1 << 30) + 1, "1073741825");
    }

    #[test]
    fn without_cgroups_every_limit_still_has_an_enforcer_and_says_where_it_is_weak() {
        let limits = Limits {
            cpus: 1.5,
            ..Limits::default()
        };
        let all = enforce(&limits, &Available::default(), 4);
        assert!(all.iter().all(|one| one.enforcer != Enforcer::Nothing));
        let weak: Vec<_> = all
            .iter()
            .filter(|one| !one.is_full())
            .map(|one| one.limit)
            .collect();
        assert_eq!(weak, [LimitKind::Memory, LimitKind::Cpu]);
    }
}
