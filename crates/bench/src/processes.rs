//! The descendants of this process, and their memory and processor time.

use std::collections::BTreeMap;
use std::fs;

/// Memory of some processes, in KiB.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ProcessMemory {
    /// Shared memory counts for each process.
    pub(crate) resident: u64,
    /// Shared memory is divided among the processes that share it.
    pub(crate) proportional: u64,
    /// Memory that only these processes hold.
    pub(crate) private: u64,
}

/// All descendants of this process, parents before children.
pub(crate) fn descendants() -> Vec<u32> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        if let Some((pid, parent)) = pid.and_then(|pid| Some((pid, parent_of(pid)?))) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut waiting = vec![std::process::id()];
    while let Some(pid) = waiting.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        waiting.extend(below);
    }
    found
}

fn parent_of(pid: u32) -> Option<u32> {
    stat(pid, 1)?.try_into().ok()
}

/// A field of a process's stat file, counted from the one after the name.
fn stat(pid: u32, field: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything, even brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split_whitespace().nth(field)?.parse().ok()
}

/// Processor time used by these processes, in kernel ticks.
pub(crate) fn cpu_ticks(pids: &[u32]) -> u64 {
    let used = |pid: &u32| Some(stat(*pid, 11)? + stat(*pid, 12)?);
    pids.iter().filter_map(used).sum()
}

/// The memory of a process; `None` if the kernel does not report it.
pub(crate) fn memory(pid: u32) -> Option<ProcessMemory> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.strip_prefix(name))?;
        value.split_whitespace().next()?.parse::<u64>().ok()
    };
    Some(ProcessMemory {
        resident: field("Rss:")?,
        proportional: field("Pss:")?,
        private: field("Private_Clean:")? + field("Private_Dirty:")?,
    })
}

/// The memory of several processes together; `None` if any cannot be read.
pub(crate) fn total_memory(pids: &[u32]) -> Option<ProcessMemory> {
    pids.iter().try_fold(ProcessMemory::default(), |sum, pid| {
        let one = memory(*pid)?;
        Some(ProcessMemory {
            resident: sum.resident + one.resident,
            proportional: sum.proportional + one.proportional,
            private: sum.private + one.private,
        })
    })
}

/// Resident memory of a process in KiB, without the slow smaps file; `None` if it has ended.
pub(crate) fn resident(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    let size = nix::unistd::sysconf(nix::unistd::SysconfVar::PAGE_SIZE).ok()??;
    Some(pages * u64::try_from(size).ok()? / 1024)
}
