//! Processes from `/proc`: children, memory and CPU time.

use std::collections::HashMap;
use std::fs;

/// A process, distinguishable from a later one with the same pid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessStat {
    pub(crate) pid: i32,
    parent: i32,
    started: u64,
    is_dead: bool,
    ticks: u64,
}

impl ProcessStat {
    pub(crate) fn of(pid: i32) -> Option<Self> {
        Self::read(pid, &format!("/proc/{pid}/stat"))
    }

    fn read(pid: i32, file: &str) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        // The name before it may contain anything.
        let (_, fields) = text.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |place: usize| fields[place].parse::<u64>().unwrap();
        Some(Self {
            pid,
            parent: fields[1].parse().unwrap(),
            started: number(19),
            is_dead: ["Z", "X"].contains(&fields[0]),
            ticks: number(11) + number(12),
        })
    }

    pub(crate) fn is_gone(&self) -> bool {
        Self::of(self.pid).is_none_or(|now| now.is_dead || now.started != self.started)
    }
}

/// The process and all its descendants.
pub(crate) fn family(pid: i32) -> Vec<ProcessStat> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children: HashMap<i32, Vec<ProcessStat>> = HashMap::new();
    for process in pids.filter_map(ProcessStat::of) {
        children.entry(process.parent).or_default().push(process);
    }
    let mut family = vec![ProcessStat::of(pid).unwrap()];
    let mut place = 0;
    while let Some(process) = family.get(place) {
        let found = children.remove(&process.pid).unwrap_or_default();
        family.extend(found);
        place += 1;
    }
    family
}

/// Peak memory in MiB.
pub(crate) fn peak_memory(pid: i32) -> u64 {
    field(&format!("/proc/{pid}/status"), "VmHWM:") / 1024
}

/// What all threads of a process have done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadActivity {
    /// CPU time in hundredths of a second.
    pub(crate) ticks: u64,
    /// How often one of them went to sleep.
    pub(crate) rests: u64,
}

pub(crate) fn work(pid: i32) -> ThreadActivity {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let mut rests = 0;
    for thread in threads {
        let status = thread.path().join("status");
        rests += field(status.to_str().unwrap(), "voluntary_ctxt_switches:");
    }
    ThreadActivity {
        ticks: ProcessStat::of(pid).unwrap().ticks,
        rests,
    }
}

/// The number after a name.
fn field(file: &str, name: &str) -> u64 {
    // A thread may end before it is read.
    let text = fs::read_to_string(file).unwrap_or_default();
    let value = text.lines().find_map(|line| line.strip_prefix(name));
    let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}
