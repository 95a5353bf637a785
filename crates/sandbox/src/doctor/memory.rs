//! Measures the host memory of a sandbox: the proportional set size (PSS) of its processes as the
//! host sees them. Read-only; returns `None` if a process cannot be inspected.

use std::collections::{HashMap, HashSet};
use std::fs;

use link::request::ObservedWalls;
use protocol::{Backend, Strength};

/// The process ids of the host at one moment.
#[derive(Debug)]
pub(super) struct ProcessSnapshot(HashSet<u32>);

impl ProcessSnapshot {
    pub(super) fn now() -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(numbers.collect())
    }
}

/// The memory of the sandbox that was started since `before`. Its processes are new. They either
/// descend from this process or, if an engine started them, are in the sandbox's pid namespace. The
/// engine's monitor process of a container is the parent of the first process inside.
pub(super) fn sandbox_memory_bytes(
    before: &ProcessSnapshot,
    backend: Backend,
    walls: &ObservedWalls,
) -> Option<u64> {
    let new: Vec<u32> = ProcessSnapshot::now()
        .0
        .difference(&before.0)
        .copied()
        .collect();
    let parents: HashMap<u32, u32> = new
        .iter()
        .filter_map(|process| Some((*process, parent(*process)?)))
        .collect();
    let mut own: HashSet<u32> = new
        .iter()
        .copied()
        .filter(|process| descends(*process, std::process::id(), &parents))
        .collect();
    // Namespace ids are comparable only within one kernel.
    if backend.strength() == Strength::Namespaces {
        let inside = walls.namespaces.iter().find(|(kind, _)| kind == "pid");
        let inside: Vec<u32> = new
            .iter()
            .copied()
            .filter(|process| {
                let namespace = fs::read_link(format!("/proc/{process}/ns/pid")).ok();
                namespace.is_some() && namespace.as_deref() == inside.map(|(_, id)| id.as_ref())
            })
            .collect();
        let watchers = inside.iter().filter_map(|process| parents.get(process));
        own.extend(watchers.filter(|watcher| parents.contains_key(watcher)));
        own.extend(inside);
    }
    if own.is_empty() {
        return None;
    }
    own.into_iter().map(pss_bytes).sum()
}

fn descends(process: u32, from: u32, parents: &HashMap<u32, u32>) -> bool {
    let line = std::iter::successors(parents.get(&process), |parent| parents.get(parent));
    // A process id can be reused while this runs, so the walk is bounded by the number of
    // processes.
    line.take(parents.len()).any(|parent| *parent == from)
}

/// Parses the stat line: PID (NAME) STATE PARENT …. The name can contain any characters.
fn parent(process: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(") ")?;
    rest.split(' ').nth(1)?.parse().ok()
}

/// PSS of a process, in bytes.
fn pss_bytes(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Pss:"))?;
    let kilobytes: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}
