//! What the host sees of a sandbox on any backend: the processes that see its workspace, the
//! processes around them, their cgroups, and mounts. Changes nothing.
//! Entry type: [`Traces`].

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Engines that serve many sandboxes; their children do the work for one.
const SHARED: &[&str] = &["dockerd", "containerd"];

/// Programs that the engines run briefly to start or end one.
const RUNTIMES: &[&str] = &["runc", "crun"];

/// One sandbox as the host saw it.
#[derive(Debug)]
pub(crate) struct Traces {
    workspace: PathBuf,
    /// From the process that its owner or an engine started, down to the last command.
    pub(crate) processes: Vec<Process>,
    /// Folders of cgroups that its owner is not in.
    pub(crate) groups: Vec<PathBuf>,
}

/// A process. The start time distinguishes reused pids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Process {
    pub(crate) pid: u32,
    started: u64,
    pub(crate) name: String,
    parent: u32,
    state: char,
}

impl Process {
    fn read(pid: u32) -> Option<Self> {
        let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The name may contain anything, including parentheses and spaces.
        let (begin, rest) = text.rsplit_once(") ")?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Self {
            pid,
            name: begin.split_once('(')?.1.to_owned(),
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            started: fields.get(19)?.parse().ok()?,
        })
    }

    /// A zombie has released everything, and only waits to be reaped.
    fn is_gone(&self) -> bool {
        Self::read(self.pid).is_none_or(|now| now.started != self.started || now.state == 'Z')
    }
}

impl Traces {
    /// The current state of a sandbox that this process started on a workspace.
    pub(crate) fn of(workspace: &Path) -> Self {
        Self::of_owner(workspace, std::process::id())
    }

    /// The same for a sandbox of another process.
    pub(crate) fn of_owner(workspace: &Path, owner: u32) -> Self {
        let all = table();
        let mut above = BTreeSet::from([0, 1]);
        let mut next = Some(owner);
        while let Some(pid) = next {
            above.insert(pid);
            next = all.get(&pid).map(|process| process.parent);
            next = next.filter(|pid| !above.contains(pid));
        }
        let stays = |pid: u32| {
            let is_shared = |process: &Process| SHARED.contains(&&*process.name);
            above.contains(&pid) || all.get(&pid).is_none_or(is_shared)
        };
        let mut found = BTreeSet::new();
        for process in in_sight_of(workspace) {
            let mut top = process.pid;
            while let Some(parent) = all.get(&top).map(|process| process.parent)
                && !stays(parent)
            {
                top = parent;
            }
            found.insert(top);
        }
        // All descendants, one generation per round.
        loop {
            let before = found.len();
            for process in all.values().filter(|process| process.state != 'Z') {
                if found.contains(&process.parent) {
                    found.insert(process.pid);
                }
            }
            if found.len() == before {
                break;
            }
        }
        let processes = found.iter().filter_map(|pid| all.get(pid).cloned());
        let mut traces = Self {
            workspace: workspace.to_owned(),
            processes: processes.collect(),
            groups: Vec::new(),
        };
        let groups: BTreeSet<PathBuf> = traces
            .behind_the_first()
            .into_iter()
            .flat_map(|pid| groups_beside(pid, owner))
            .map(|group| group.folder)
            .collect();
        traces.groups.extend(groups);
        traces
    }

    /// The processes whose parent is in the list, which excludes the one that takes the walls down.
    pub(crate) fn behind_the_first(&self) -> Vec<u32> {
        let is_inner = |process: &&Process| {
            let mut others = self.processes.iter();
            others.any(|other| other.pid == process.parent)
        };
        let inner = self.processes.iter().filter(is_inner);
        inner.map(|process| process.pid).collect()
    }

    /// Whether an engine is still working on it.
    pub(crate) fn has_runtime(&self) -> bool {
        let mut processes = self.processes.iter();
        processes.any(|process| RUNTIMES.contains(&&*process.name))
    }

    /// Whether all its processes have ended, and no other process sees the workspace.
    pub(crate) fn have_ended(&self) -> bool {
        self.processes.iter().all(Process::is_gone) && in_sight_of(&self.workspace).is_empty()
    }

    /// Whether everything is gone, and nothing new appeared.
    pub(crate) fn are_gone(&self) -> bool {
        self.processes.iter().all(Process::is_gone)
            && self.groups.iter().all(|folder| !folder.exists())
            && nobody_sees(&self.workspace)
    }
}

/// Whether no process of the machine sees a workspace, and it is mounted nowhere.
pub(crate) fn nobody_sees(workspace: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    !mounts.contains(&*workspace.to_string_lossy()) && in_sight_of(workspace).is_empty()
}

fn table() -> BTreeMap<u32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, Process::read(pid)?)))
        .collect()
}

/// Processes that have the workspace mounted in another mount namespace, or in their arguments,
/// except this one.
pub(crate) fn in_sight_of(workspace: &Path) -> Vec<Process> {
    let name = workspace.to_string_lossy().into_owned();
    let world = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
    let own = world(std::process::id());
    let sees = |pid: u32| {
        let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let is_named = String::from_utf8_lossy(&words).contains(&name);
        let is_mounted = || {
            let mounts = fs::read_to_string(format!("/proc/{pid}/mountinfo"));
            mounts.is_ok_and(|mounts| mounts.contains(&name))
        };
        is_named || world(pid) != own && is_mounted()
    };
    let own_pid = std::process::id();
    let alive = |process: &Process| process.state != 'Z' && process.pid != own_pid;
    table()
        .into_values()
        .filter(|process| alive(process) && sees(process.pid))
        .collect()
}

/// A cgroup of a process.
#[derive(Debug)]
pub(crate) struct Group {
    /// As in `/proc/PID/cgroup`; empty for version 2.
    pub(crate) controllers: String,
    pub(crate) folder: PathBuf,
}

/// The cgroups of a process that another process is not in, if this machine shows any.
pub(crate) fn groups_beside(pid: u32, other: u32) -> Vec<Group> {
    let memberships = |pid: u32| -> BTreeMap<String, String> {
        let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        let fields = text.lines().filter_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            Some((controllers.to_owned(), path.to_owned()))
        });
        fields.collect()
    };
    let others = memberships(other);
    let mut groups = Vec::new();
    for (controllers, path) in memberships(pid) {
        if others.get(&controllers) == Some(&path) {
            continue;
        }
        let folder = hierarchy(&controllers).map(|hierarchy| hierarchy.folder(&path));
        if let Some(folder) = folder.filter(|folder| folder.is_dir()) {
            groups.push(Group {
                controllers,
                folder,
            });
        }
    }
    groups
}

/// The mount point of a cgroup hierarchy, and its mounted part.
struct Hierarchy {
    root: String,
    point: PathBuf,
}

impl Hierarchy {
    fn folder(&self, path: &str) -> PathBuf {
        let shown = path.strip_prefix(self.root.trim_end_matches('/'));
        let shown = shown.unwrap_or(path).trim_start_matches('/');
        self.point.join(shown)
    }
}

fn hierarchy(controllers: &str) -> Option<Hierarchy> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mounts.lines().find_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let mut kind = kind.split(' ');
        let (system, options) = (kind.next()?, kind.nth(1)?);
        let is_it = match controllers {
            "" => system == "cgroup2",
            names => {
                let has = |name: &str| options.split(',').any(|option| option == name);
                system == "cgroup" && names.split(',').all(has)
            }
        };
        let mut place = place.split(' ').skip(3);
        let (root, point) = (place.next()?, place.next()?);
        is_it.then(|| Hierarchy {
            root: root.to_owned(),
            point: point.into(),
        })
    })
}
