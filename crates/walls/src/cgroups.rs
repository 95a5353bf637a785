//! Control groups: detects usable controllers, creates groups and removes them.
//!
//! Uses version 2 where it is delegated, and version 1 where the machine has that. Entry points:
//! [`Available::detect`] on the host, [`Groups`] in the supervisor, [`sweep`] after a crash.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};

use crate::plan::{Group, GroupVersion, Stage};
use crate::supervisor::{At, Step};

/// The controllers that limits need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    Memory,
    Cpu,
    Pids,
}

impl Controller {
    const ALL: [Self; 3] = [Self::Memory, Self::Cpu, Self::Pids];

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Pids => "pids",
        }
    }
}

/// A cgroup below which this process may create groups.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    pub folder: PathBuf,
    pub version: GroupVersion,
}

/// Where each controller can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Available {
    homes: HashMap<Controller, Home>,
}

impl Available {
    /// Finds the groups of this process in which it may create others.
    pub fn detect() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memberships = read("/proc/self/cgroup");
        let mounts = read("/proc/self/mountinfo");
        let mut available = Self::default();
        for place in places(&memberships, &mounts) {
            match place.version {
                GroupVersion::V1 => available.offer_v1(&place),
                GroupVersion::V2 => available.offer_v2(&place),
            }
        }
        available
    }

    /// All controllers in one version 2 cgroup that delegates them, as inside a virtual machine.
    pub fn unified(folder: impl Into<PathBuf>) -> Self {
        let home = Home {
            folder: folder.into(),
            version: GroupVersion::V2,
        };
        Self {
            homes: Controller::ALL.map(|one| (one, home.clone())).into(),
        }
    }

    pub fn home(&self, controller: Controller) -> Option<&Home> {
        self.homes.get(&controller)
    }

    fn offer_v1(&mut self, place: &Place) {
        for controller in Controller::ALL {
            if place
                .controllers
                .iter()
                .any(|name| name == controller.name())
                && is_usable(&place.folder, "tasks")
            {
                let home = Home {
                    folder: place.folder.clone(),
                    version: GroupVersion::V1,
                };
                self.homes.insert(controller, home);
            }
        }
    }

    /// Walks up from this process's group. A group that contains processes may not enable
    /// controllers for its children; its parent usually does.
    fn offer_v2(&mut self, place: &Place) {
        for folder in place
            .folder
            .ancestors()
            .take_while(|f| f.starts_with(&place.mount))
        {
            if !is_usable(folder, "cgroup.procs") {
                continue;
            }
            let handed_down = fs::read_to_string(folder.join("cgroup.subtree_control"));
            let handed_down = handed_down.unwrap_or_default();
            for controller in Controller::ALL {
                if handed_down
                    .split_whitespace()
                    .any(|name| name == controller.name())
                {
                    self.homes.entry(controller).or_insert_with(|| Home {
                        folder: folder.to_owned(),
                        version: GroupVersion::V2,
                    });
                }
            }
        }
    }
}

fn is_usable(folder: &Path, entry: &str) -> bool {
    access(folder, AccessFlags::W_OK).is_ok()
        && access(&folder.join(entry), AccessFlags::W_OK).is_ok()
}

/// A cgroup hierarchy, and the group of one process in it.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    version: GroupVersion,
    controllers: Vec<String>,
    mount: PathBuf,
    folder: PathBuf,
}

/// A group that a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub version: GroupVersion,
    /// Version 1 only. In version 2 the files of the group show its controllers.
    pub controllers: Vec<String>,
    pub folder: PathBuf,
}

/// The groups of a process, as far as they are visible in this mount namespace.
pub fn memberships(pid: i32) -> Vec<Membership> {
    let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    places(&memberships, &mounts)
        .into_iter()
        .map(|place| Membership {
            version: place.version,
            controllers: place.controllers,
            folder: place.folder,
        })
        .collect()
}

/// Joins `/proc/self/cgroup` with `/proc/self/mountinfo`.
fn places(memberships: &str, mounts: &str) -> Vec<Place> {
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = if number == "0" {
            GroupVersion::V2
        } else {
            GroupVersion::V1
        };
        let controllers: Vec<String> = names.split(',').map(str::to_owned).collect();
        for mount in mounts.lines() {
            let Some((root, point)) = mounted(mount, version, &controllers) else {
                continue;
            };
            let Ok(below) = Path::new(path).strip_prefix(root) else {
                continue;
            };
            found.push(Place {
                version,
                controllers: controllers.clone(),
                mount: PathBuf::from(point),
                folder: Path::new(point).join(below),
            });
            break;
        }
    }
    found
}

/// Root and mount point of a mountinfo line, if it mounts the requested hierarchy.
fn mounted<'a>(
    line: &'a str,
    version: GroupVersion,
    controllers: &[String],
) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let is_it = match version {
        GroupVersion::V2 => kind == "cgroup2",
        GroupVersion::V1 => {
            kind == "cgroup"
                && controllers
                    .iter()
                    .all(|name| options.split(',').any(|option| option == name))
        }
    };
    is_it.then_some((root, point))
}

/// The name of a sandbox's groups. It contains the owner, so that [`sweep`] recognises groups of
/// processes that have ended.
pub fn group_name(number: u64) -> Option<String> {
    let owner = Owner::current()?;
    Some(format!(
        "{PREFIX}{}-{}-{}-{number}",
        owner.namespace, owner.pid, owner.started
    ))
}

/// Whether a name was made by [`group_name`] in a process that has ended.
pub fn is_abandoned(name: &str) -> bool {
    Owner::of(name).is_some_and(Owner::is_dead)
}

const PREFIX: &str = "hotcell-";

/// The host process that created a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Owner {
    /// Inode of the pid namespace: the pid is valid only there.
    namespace: u64,
    pid: i32,
    /// Start time in clock ticks since boot, because pids are reused.
    started: u64,
}

impl Owner {
    fn current() -> Option<Self> {
        let pid = std::process::id() as i32;
        Some(Self {
            namespace: pid_namespace()?,
            pid,
            started: started(pid)?,
        })
    }

    fn of(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(PREFIX)?.split('-');
        Some(Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started: parts.next()?.parse().ok()?,
        })
    }

    fn is_dead(self) -> bool {
        pid_namespace() == Some(self.namespace) && started(self.pid) != Some(self.started)
    }
}

fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|ns| ns.ino())
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may contain anything, so fields are counted from its
/// end.
fn started(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    made: Vec<Group>,
    unified: Option<OwnedFd>,
}

impl Groups {
    /// Creates the groups of one version.
    pub(crate) fn make(&mut self, groups: &[Group], version: GroupVersion) -> Step<()> {
        for group in groups.iter().filter(|group| group.version == version) {
            let name = group.folder.display();
            let step = |what: &str| format!("{what} `{name}`");
            fs::create_dir(&group.folder).at(Stage::Cgroups, step("make control group"))?;
            self.made.push(group.clone());
            set(group)?;
            if group.version == GroupVersion::V2 {
                let open =
                    File::open(&group.folder).at(Stage::Cgroups, step("open control group"))?;
                self.unified = Some(open.into());
            }
        }
        Ok(())
    }

    /// Writes new values into the existing groups.
    pub(crate) fn change(&mut self, groups: &[Group]) -> Step<()> {
        groups.iter().try_for_each(set)?;
        self.made = groups.to_vec();
        Ok(())
    }

    /// Files through which a process joins the version 1 groups. Writing `0` to `tasks` moves only
    /// the calling thread. That is cheaper than moving another process, for which the kernel waits for
    /// all processors.
    pub(crate) fn entries(&self) -> Step<Vec<File>> {
        self.made
            .iter()
            .filter(|group| group.version == GroupVersion::V1)
            .map(|group| {
                File::options()
                    .write(true)
                    .open(group.folder.join("tasks"))
                    .at(Stage::Cgroups, "open the control group")
            })
            .collect()
    }

    /// The version 2 group, for `CLONE_INTO_CGROUP`.
    pub(crate) fn unified(&self) -> Option<&OwnedFd> {
        self.unified.as_ref()
    }

    pub(crate) fn out_of_memory_kills(&self) -> u64 {
        let counters = self.made.iter().filter_map(|group| {
            let file = group.kill_counter.as_ref()?;
            count_memory_kills(&fs::read_to_string(group.folder.join(file)).ok()?)
        });
        counters.sum()
    }

    pub(crate) fn remove(&mut self) {
        for group in self.made.drain(..) {
            remove(&group.folder);
        }
    }
}

fn set(group: &Group) -> Step<()> {
    for (file, value, required) in &group.settings {
        let written = fs::write(group.folder.join(file), value);
        if *required {
            let name = group.folder.display();
            let step = format!("set {file} of control group `{name}`");
            written.at(Stage::Cgroups, step)?;
        }
    }
    Ok(())
}

/// Parses the number of OOM kills in `memory.oom_control` or `memory.events`.
pub fn count_memory_kills(counters: &str) -> Option<u64> {
    let count = counters
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

/// Removes a group whose processes are dead or dying. The group is busy until the kernel has removed
/// the last process, and version 1 has no event for that, hence the bounded retry.
fn remove(folder: &Path) {
    let give_up = Instant::now() + Duration::from_secs(2);
    while let Err(error) = fs::remove_dir(folder) {
        if error.kind() == io::ErrorKind::NotFound || Instant::now() > give_up {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills all processes of a group and removes it, if it exists.
pub fn discard(folder: &Path) {
    if folder.exists() {
        end(folder);
        remove(folder);
    }
}

/// Time limit of one [`sweep`]. The next one continues with the remaining groups.
const SWEEP_TIME: Duration = Duration::from_secs(10);

/// Kills and removes the groups of host processes that have ended.
pub fn sweep() {
    let give_up = Instant::now() + SWEEP_TIME;
    let mut verdicts: HashMap<Owner, bool> = HashMap::new();
    let mut homes: Vec<PathBuf> = Available::detect()
        .homes
        .into_values()
        .map(|home| home.folder)
        .collect();
    homes.sort();
    homes.dedup();
    for home in homes {
        for entry in fs::read_dir(home).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(owner) = name.to_str().and_then(Owner::of) else {
                continue;
            };
            if Instant::now() > give_up {
                return;
            }
            if *verdicts.entry(owner).or_insert_with(|| owner.is_dead()) {
                end(&entry.path());
                remove(&entry.path());
            }
        }
    }
}

fn end(folder: &Path) {
    if fs::write(folder.join("cgroup.kill"), "1").is_ok() {
        return;
    }
    for line in fs::read_to_string(folder.join("cgroup.procs"))
        .unwrap_or_default()
        .lines()
    {
        if let Ok(pid) = line.parse() {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1_MOUNTS: &str = "\
33 32 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup rw,cpu,cpuacct
34 32 0:30 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
40 32 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";

    #[test]
    fn memberships_and_mounts_give_folders() {
        let check = |memberships: &str, mounts: &str, expect: &[&str]| {
            let folders: Vec<_> = places(memberships, mounts)
                .into_iter()
                .map(|place| place.folder)
                .collect();
            assert_eq!(
                folders,
                expect.iter().map(PathBuf::from).collect::<Vec<_>>()
            );
        };
        check(
            "4:memory:/a/b\n2:cpu,cpuacct:/\n0::/c",
            V1_MOUNTS,
            &[
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/cpu,cpuacct/",
                "/sys/fs/cgroup/unified/c",
            ],
        );
        check(
            "0::/user.slice/app.scope",
            "30 24 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate",
            &["/sys/fs/cgroup/user.slice/app.scope"],
        );
        // A bind mount of a part of the hierarchy, as in containers.
        check(
            "4:memory:/docker/x/y",
            "34 32 0:30 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            &["/sys/fs/cgroup/memory/y"],
        );
        check(
            "4:memory:/other",
            "34 32 0:30 /docker /m rw - cgroup cgroup rw,memory",
            &[],
        );
    }

    #[test]
    fn version_2_is_used_where_a_folder_hands_controllers_down() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("app.slice/run.scope");
        fs::create_dir_all(&own).unwrap();
        for folder in [root.path(), own.parent().unwrap(), &own] {
            fs::write(folder.join("cgroup.procs"), "").unwrap();
        }
        fs::write(own.join("cgroup.subtree_control"), "").unwrap();
        fs::write(
            own.parent().unwrap().join("cgroup.subtree_control"),
            "memory pids",
        )
        .unwrap();
        fs::write(
            root.path().join("cgroup.subtree_control"),
            "cpu memory pids",
        )
        .unwrap();
        let mut available = Available::default();
        available.offer_v2(&Place {
            version: GroupVersion::V2,
            controllers: vec![String::new()],
            mount: root.path().into(),
            folder: own.clone(),
        });
        let folder = |controller| available.home(controller).unwrap().folder.clone();
        assert_eq!(folder(Controller::Memory), own.parent().unwrap());
        assert_eq!(folder(Controller::Pids), own.parent().unwrap());
        assert_eq!(folder(Controller::Cpu), root.path());
    }

    #[test]
    fn a_group_tells_whose_it_is() {
        let name = group_name(7).unwrap();
        let owner = Owner::of(&name).unwrap();
        assert_eq!(Some(owner), Owner::current());
        assert!(!owner.is_dead());
        let past = Owner {
            started: owner.started.wrapping_add(1),
            ..owner
        };
        assert!(past.is_dead());
        let elsewhere = Owner {
            namespace: owner.namespace.wrapping_add(1),
            ..past
        };
        assert!(!elsewhere.is_dead());
        assert_eq!(Owner::of("hotcell-x"), None);
    }
}
