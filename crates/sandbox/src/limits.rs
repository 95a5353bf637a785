//! Limits, and the mechanism that enforces each of them on this machine. Decides only; the walls
//! enforce.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use protocol::Limits;
use serde::Serialize;
use walls::cgroups::{AvailableControllers, Controller};
use walls::plan::CgroupVersion;

/// What a sandbox may use.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SandboxLimits {
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

impl Default for SandboxLimits {
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

impl SandboxLimits {
    /// The smallest limits with which a sandbox starts behind native walls and `bash` and `git`
    /// run.
    pub const MIN_LIMITS: Self = Self {
        memory: 8 << 20,
        cpus: 0.01,
        pids: 8,
        disk: 1 << 20,
        open_files: 16,
        wall: None,
        output: None,
    };

    /// These limits with those that were requested in their place.
    pub fn with(self, requested: &Limits) -> Self {
        Self {
            memory: requested.memory.unwrap_or(self.memory),
            cpus: requested.cpus.unwrap_or(self.cpus),
            pids: requested.pids.unwrap_or(self.pids),
            disk: requested.disk.unwrap_or(self.disk),
            open_files: requested.open_files.unwrap_or(self.open_files),
            ..self
        }
    }

    /// The requested limits where they are lower than these.
    pub fn lowered(self, requested: &Limits) -> Self {
        let wanted = self.with(requested);
        Self {
            memory: wanted.memory.min(self.memory),
            cpus: wanted.cpus.min(self.cpus),
            pids: wanted.pids.min(self.pids),
            disk: wanted.disk.min(self.disk),
            open_files: wanted.open_files.min(self.open_files),
            ..self
        }
    }

    /// Rejects limits below [`SandboxLimits::MIN_LIMITS`], which would only fail later.
    pub fn check(&self) -> Result<(), LimitTooSmall> {
        let least = Self::MIN_LIMITS;
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
pub enum LimitEnforcer {
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

impl fmt::Display for LimitEnforcer {
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
pub struct LimitEnforcement {
    pub limit: LimitKind,
    pub value: String,
    pub enforcer: LimitEnforcer,
    /// Where enforcement is weaker than the limit.
    pub caveat: Option<String>,
}

impl LimitEnforcement {
    fn new(limit: LimitKind, value: impl Into<String>, enforcer: LimitEnforcer) -> Self {
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
        self.enforcer != LimitEnforcer::Nothing && self.caveat.is_none()
    }
}

/// Each limit's name, with its value and what enforces it.
pub(crate) fn summaries(limits: &[LimitEnforcement]) -> BTreeMap<String, String> {
    let summary = |one: &LimitEnforcement| {
        let enforced = format!("{} by {}", one.value, one.enforcer);
        (one.limit.name().to_owned(), enforced)
    };
    limits.iter().map(summary).collect()
}

impl From<CgroupVersion> for LimitEnforcer {
    fn from(version: CgroupVersion) -> Self {
        match version {
            CgroupVersion::V1 => Self::CgroupV1,
            CgroupVersion::V2 => Self::CgroupV2,
        }
    }
}

/// What enforces each limit behind native walls.
pub(crate) fn native_enforcement(
    limits: &SandboxLimits,
    groups: &AvailableControllers,
    processors: usize,
) -> Vec<LimitEnforcement> {
    let group = |controller| {
        groups
            .parent(controller)
            .map(|home| LimitEnforcer::from(home.version))
    };
    enforcement_with(limits, group, processors, LimitEnforcer::GuestAndSupervisor)
}

/// The enforcer of each limit, given the enforcer of each cgroup controller and the enforcer of
/// the deadline (`wall`).
pub(crate) fn enforcement_with(
    limits: &SandboxLimits,
    group: impl Fn(Controller) -> Option<LimitEnforcer>,
    processors: usize,
    wall: LimitEnforcer,
) -> Vec<LimitEnforcement> {
    let memory = LimitEnforcement::new(
        LimitKind::Memory,
        bytes(limits.memory),
        group(Controller::Memory).unwrap_or(LimitEnforcer::Rlimit),
    );
    let memory = match memory.enforcer {
        LimitEnforcer::Rlimit => memory.but(
            "private memory of each process by itself, and not what processes share or keep in \
                 memory files: no cgroup is delegated to this user",
        ),
        _ => memory,
    };
    let cpu = |enforcer| LimitEnforcement::new(LimitKind::Cpu, limits.cpus.to_string(), enforcer);
    let cpu = match group(Controller::Cpu) {
        Some(enforcer) => cpu(enforcer),
        None if limits.cpus.fract() == 0.0 || limits.cpus >= processors as f64 => {
            cpu(LimitEnforcer::Affinity)
        }
        None => cpu(LimitEnforcer::Affinity).but(format!(
            "whole processors only ({}): no cgroup is delegated to this user",
            limits.cpus.ceil()
        )),
    };
    // The kernel counts RLIMIT_NPROC per user namespace, and each sandbox has its own.
    let pids = group(Controller::Pids).unwrap_or(LimitEnforcer::Rlimit);
    let deadline = match limits.wall {
        Some(wall) => format!("{wall:?}"),
        None => "none set".to_owned(),
    };
    let output = limits.output.map_or("none set".to_owned(), bytes);
    vec![
        memory,
        cpu,
        LimitEnforcement::new(LimitKind::Pids, limits.pids.to_string(), pids),
        LimitEnforcement::new(LimitKind::Disk, bytes(limits.disk), LimitEnforcer::Scan),
        LimitEnforcement::new(
            LimitKind::OpenFiles,
            limits.open_files.to_string(),
            LimitEnforcer::Rlimit,
        ),
        LimitEnforcement::new(LimitKind::WallTime, deadline, wall),
        LimitEnforcement::new(LimitKind::Output, output, LimitEnforcer::Guest),
    ]
}

/// The enforcer of each limit inside gVisor: its kernel and the guest. The host's cgroups bound the
/// whole, with some extra room for gVisor itself.
pub(crate) fn gvisor_enforcement(
    limits: &SandboxLimits,
    groups: &AvailableControllers,
    processors: usize,
) -> Vec<LimitEnforcement> {
    let change = |enforcement: LimitEnforcement| match enforcement.limit {
        // gVisor's kernel has no such limit, and reaching the host's limit would end the whole
        // sandbox.
        LimitKind::Memory => {
            let value = enforcement.value;
            let memory = LimitEnforcement::new(LimitKind::Memory, value, LimitEnforcer::Guest);
            match groups.parent(Controller::Memory) {
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
        LimitKind::Pids => LimitEnforcement {
            enforcer: LimitEnforcer::Rlimit,
            ..enforcement
        },
        _ => enforcement,
    };
    let native = native_enforcement(limits, groups, processors);
    native.into_iter().map(change).collect()
}

/// The enforcer of each limit in a virtual machine, where all cgroup controllers are available.
pub(crate) fn machine_enforcement(limits: &SandboxLimits) -> Vec<LimitEnforcement> {
    native_enforcement(limits, &AvailableControllers::with_unified_parent("/"), 0)
        .into_iter()
        .map(|enforcement| match enforcement.limit {
            LimitKind::Memory | LimitKind::Cpu => LimitEnforcement {
                enforcer: LimitEnforcer::Vm,
                ..enforcement
            },
            _ => enforcement,
        })
        .collect()
}

/// The enforcer of each limit without walls: only the guest.
pub(crate) fn unwalled_enforcement(limits: &SandboxLimits) -> Vec<LimitEnforcement> {
    native_enforcement(limits, &AvailableControllers::default(), 0)
        .into_iter()
        .map(|enforcement| match enforcement.limit {
            LimitKind::WallTime | LimitKind::Output => LimitEnforcement {
                enforcer: LimitEnforcer::Guest,
                ..enforcement
            },
            _ => LimitEnforcement {
                enforcer: LimitEnforcer::Nothing,
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
    fn a_request_replaces_limits_or_only_lowers_them() {
        let base = SandboxLimits::default();
        let requested = Limits {
            memory: Some(base.memory * 2),
            cpus: Some(0.5),
            ..Limits::default()
        };
        let lowered = SandboxLimits { cpus: 0.5, ..base };
        assert_eq!(base.lowered(&requested), lowered);
        let replaced = SandboxLimits {
            memory: base.memory * 2,
            ..lowered
        };
        assert_eq!(base.with(&requested), replaced);
        assert_eq!(base.with(&Limits::default()), base);
    }

    #[test]
    fn without_cgroups_every_limit_still_has_an_enforcer_and_says_where_it_is_weak() {
        let limits = SandboxLimits {
            cpus: 1.5,
            ..SandboxLimits::default()
        };
        let all = native_enforcement(&limits, &AvailableControllers::default(), 4);
        assert!(all.iter().all(|one| one.enforcer != LimitEnforcer::Nothing));
        let weak: Vec<_> = all
            .iter()
            .filter(|one| !one.is_full())
            .map(|one| one.limit)
            .collect();
        assert_eq!(weak, [LimitKind::Memory, LimitKind::Cpu]);
    }
}
