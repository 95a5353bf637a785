//! Control groups: detects usable controllers, creates groups and removes them.
//!
//! Uses version 2 where it is delegated, and version 1 where the machine has that. Entry points:
//! [`AvailableControllers::detect`] on the host, [`CgroupSet`] in the supervisor, [`remove_stale_groups`] after a crash.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{AccessFlags, Pid, access};

use crate::plan::{CgroupSpec, CgroupVersion, SetupStage};
use crate::supervisor::{SetupContext, SetupResult};

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
pub struct CgroupParent {
    pub folder: PathBuf,
    pub version: CgroupVersion,
}

/// Where each controller can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AvailableControllers {
    parents: HashMap<Controller, CgroupParent>,
}

impl AvailableControllers {
    /// Finds the groups of this process in which it may create others.
    pub fn detect() -> Self {
        let read = |path| fs::read_to_string(path).unwrap_or_default();
        let memberships = read("/proc/self/cgroup");
        let mounts = read("/proc/self/mountinfo");
        let mut available = Self::default();
        for place in parse_hierarchies(&memberships, &mounts) {
            match place.version {
                CgroupVersion::V1 => available.add_v1(&place),
                CgroupVersion::V2 => available.add_v2(&place),
            }
        }
        available
    }

    /// All controllers in one version 2 cgroup that delegates them, as inside a virtual machine.
    pub fn with_unified_parent(folder: impl Into<PathBuf>) -> Self {
        let home = CgroupParent {
            folder: folder.into(),
            version: CgroupVersion::V2,
        };
        Self {
            parents: Controller::ALL.map(|one| (one, home.clone())).into(),
        }
    }

    pub fn parent(&self, controller: Controller) -> Option<&CgroupParent> {
        self.parents.get(&controller)
    }

    fn add_v1(&mut self, place: &CgroupHierarchy) {
        for controller in Controller::ALL {
            if place
                .controllers
                .iter()
                .any(|name| name == controller.name())
                && is_writable(&place.folder, "tasks")
            {
                let home = CgroupParent {
                    folder: place.folder.clone(),
                    version: CgroupVersion::V1,
                };
                self.parents.insert(controller, home);
            }
        }
    }

    /// Walks up from this process's group. A group that contains processes may not enable
    /// controllers for its children; its parent usually does.
    fn add_v2(&mut self, place: &CgroupHierarchy) {
        for folder in place
            .folder
            .ancestors()
            .take_while(|f| f.starts_with(&place.mount))
        {
            if !is_writable(folder, "cgroup.procs") {
                continue;
            }
            let handed_down = fs::read_to_string(folder.join("cgroup.subtree_control"));
            let handed_down = handed_down.unwrap_or_default();
            for controller in Controller::ALL {
                if handed_down
                    .split_whitespace()
                    .any(|name| name == controller.name())
                {
                    self.parents
                        .entry(controller)
                        .or_insert_with(|| CgroupParent {
                            folder: folder.to_owned(),
                            version: CgroupVersion::V2,
                        });
                }
            }
        }
    }
}

fn is_writable(folder: &Path, entry: &str) -> bool {
    access(folder, AccessFlags::W_OK).is_ok()
        && access(&folder.join(entry), AccessFlags::W_OK).is_ok()
}

/// A cgroup hierarchy, and the group of one process in it.
#[derive(Debug, PartialEq, Eq)]
struct CgroupHierarchy {
    version: CgroupVersion,
    controllers: Vec<String>,
    mount: PathBuf,
    folder: PathBuf,
}

/// A group that a process is in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CgroupMembership {
    pub version: CgroupVersion,
    /// Version 1 only. In version 2 the files of the group show its controllers.
    pub controllers: Vec<String>,
    pub folder: PathBuf,
}

/// The groups of a process, as far as they are visible in this mount namespace.
pub fn memberships(pid: i32) -> Vec<CgroupMembership> {
    let memberships = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    parse_hierarchies(&memberships, &mounts)
        .into_iter()
        .map(|place| CgroupMembership {
            version: place.version,
            controllers: place.controllers,
            folder: place.folder,
        })
        .collect()
}

/// Joins `/proc/self/cgroup` with `/proc/self/mountinfo`.
fn parse_hierarchies(memberships: &str, mounts: &str) -> Vec<CgroupHierarchy> {
    let mut found = Vec::new();
    for line in memberships.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(number), Some(names), Some(path)) = (fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        let version = if number == "0" {
            CgroupVersion::V2
        } else {
            CgroupVersion::V1
        };
        let controllers: Vec<String> = names.split(',').map(str::to_owned).collect();
        for mount in mounts.lines() {
            let Some((root, point)) = parse_cgroup_mount(mount, version, &controllers) else {
                continue;
            };
            let Ok(below) = Path::new(path).strip_prefix(root) else {
                continue;
            };
            found.push(CgroupHierarchy {
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
fn parse_cgroup_mount<'a>(
    line: &'a str,
    version: CgroupVersion,
    controllers: &[String],
) -> Option<(&'a str, &'a str)> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ').skip(3);
    let (root, point) = (before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, options) = (after.next()?, after.nth(1)?);
    let is_it = match version {
        CgroupVersion::V2 => kind == "cgroup2",
        CgroupVersion::V1 => {
            kind == "cgroup"
                && controllers
                    .iter()
                    .all(|name| options.split(',').any(|option| option == name))
        }
    };
    is_it.then_some((root, point))
}

/// The name of a sandbox's groups. It contains the owner, so that [`remove_stale_groups`] recognises groups of
/// processes that have ended.
pub fn group_name(number: u64) -> Option<String> {
    let owner = GroupOwner::current()?;
    Some(format!(
        "{GROUP_NAME_PREFIX}{}-{}-{}-{number}",
        owner.namespace, owner.pid, owner.started_ticks
    ))
}

/// Whether a name was made by [`group_name`] in a process that has ended.
pub fn is_abandoned(name: &str) -> bool {
    GroupOwner::parse(name).is_some_and(GroupOwner::is_dead)
}

const GROUP_NAME_PREFIX: &str = "hotcell-";

/// The host process that created a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct GroupOwner {
    /// Inode of the pid namespace: the pid is valid only there.
    namespace: u64,
    pid: i32,
    /// Start time in clock ticks since boot, because pids are reused.
    started_ticks: u64,
}

impl GroupOwner {
    fn current() -> Option<Self> {
        let pid = std::process::id() as i32;
        Some(Self {
            namespace: pid_namespace()?,
            pid,
            started_ticks: process_start_ticks(pid)?,
        })
    }

    fn parse(name: &str) -> Option<Self> {
        let mut parts = name.strip_prefix(GROUP_NAME_PREFIX)?.split('-');
        Some(Self {
            namespace: parts.next()?.parse().ok()?,
            pid: parts.next()?.parse().ok()?,
            started_ticks: parts.next()?.parse().ok()?,
        })
    }

    fn is_dead(self) -> bool {
        pid_namespace() == Some(self.namespace)
            && process_start_ticks(self.pid) != Some(self.started_ticks)
    }
}

fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|ns| ns.ino())
}

/// Field 22 of `/proc/PID/stat`. The name in field 2 may contain anything, so fields are counted from its
/// end.
fn process_start_ticks(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(19)?.parse().ok()
}

/// The groups of one sandbox.
#[derive(Debug, Default)]
pub(crate) struct CgroupSet {
    created: Vec<CgroupSpec>,
    v2_group: Option<OwnedFd>,
}

impl CgroupSet {
    /// Creates the groups of one version.
    pub(crate) fn create(
        &mut self,
        groups: &[CgroupSpec],
        version: CgroupVersion,
    ) -> SetupResult<()> {
        for group in groups.iter().filter(|group| group.version == version) {
            let name = group.folder.display();
            let step = |what: &str| format!("{what} `{name}`");
            fs::create_dir(&group.folder).at(SetupStage::Cgroups, step("make control group"))?;
            self.created.push(group.clone());
            write_settings(group)?;
            if group.version == CgroupVersion::V2 {
                let open = File::open(&group.folder)
                    .at(SetupStage::Cgroups, step("open control group"))?;
                self.v2_group = Some(open.into());
            }
        }
        Ok(())
    }

    /// Writes new values into the existing groups.
    pub(crate) fn update(&mut self, groups: &[CgroupSpec]) -> SetupResult<()> {
        groups.iter().try_for_each(write_settings)?;
        self.created = groups.to_vec();
        Ok(())
    }

    /// Files through which a process joins the version 1 groups. Writing `0` to `tasks` moves only
    /// the calling thread. That is cheaper than moving another process, for which the kernel waits for
    /// all processors.
    pub(crate) fn open_task_files(&self) -> SetupResult<Vec<File>> {
        self.created
            .iter()
            .filter(|group| group.version == CgroupVersion::V1)
            .map(|group| {
                File::options()
                    .write(true)
                    .open(group.folder.join("tasks"))
                    .at(SetupStage::Cgroups, "open the control group")
            })
            .collect()
    }

    /// The version 2 group, for `CLONE_INTO_CGROUP`.
    pub(crate) fn v2_group(&self) -> Option<&OwnedFd> {
        self.v2_group.as_ref()
    }

    pub(crate) fn count_oom_kills(&self) -> u64 {
        let counters = self.created.iter().filter_map(|group| {
            let file = group.oom_kill_file.as_ref()?;
            parse_oom_kills(&fs::read_to_string(group.folder.join(file)).ok()?)
        });
        counters.sum()
    }

    pub(crate) fn remove_all(&mut self) {
        for group in self.created.drain(..) {
            remove_group(&group.folder);
        }
    }
}

fn write_settings(group: &CgroupSpec) -> SetupResult<()> {
    for (file, value, required) in &group.settings {
        let written = fs::write(group.folder.join(file), value);
        if *required {
            let name = group.folder.display();
            let step = format!("set {file} of control group `{name}`");
            written.at(SetupStage::Cgroups, step)?;
        }
    }
    Ok(())
}

/// Parses the number of OOM kills in `memory.oom_control` or `memory.events`.
pub fn parse_oom_kills(counters: &str) -> Option<u64> {
    let count = counters
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "))?;
    count.trim().parse().ok()
}

/// Removes a group whose processes are dead or dying. The group is busy until the kernel has removed
/// the last process, and version 1 has no event for that, hence the bounded retry.
fn remove_group(folder: &Path) {
    let give_up = Instant::now() + Duration::from_secs(2);
    while let Err(error) = fs::remove_dir(folder) {
        if error.kind() == io::ErrorKind::NotFound || Instant::now() > give_up {
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Kills all processes of a group and removes it, if it exists.
pub fn kill_and_remove(folder: &Path) {
    if folder.exists() {
        kill_processes(folder);
        remove_group(folder);
    }
}

/// Time limit of one [`remove_stale_groups`]. The next one continues with the remaining groups.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(10);

/// Kills and removes the groups of host processes that have ended.
pub fn remove_stale_groups() {
    let give_up = Instant::now() + CLEANUP_TIMEOUT;
    let mut verdicts: HashMap<GroupOwner, bool> = HashMap::new();
    let mut homes: Vec<PathBuf> = AvailableControllers::detect()
        .parents
        .into_values()
        .map(|home| home.folder)
        .collect();
    homes.sort();
    homes.dedup();
    for home in homes {
        for entry in fs::read_dir(home).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(owner) = name.to_str().and_then(GroupOwner::parse) else {
                continue;
            };
            if Instant::now() > give_up {
                return;
            }
            if *verdicts.entry(owner).or_insert_with(|| owner.is_dead()) {
                kill_processes(&entry.path());
                remove_group(&entry.path());
            }
        }
    }
}

fn kill_processes(folder: &Path) {
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
            let folders: Vec<_> = parse_hierarchies(memberships, mounts)
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
        let mut available = AvailableControllers::default();
        available.add_v2(&CgroupHierarchy {
            version: CgroupVersion::V2,
            controllers: vec![String::new()],
            mount: root.path().into(),
            folder: own.clone(),
        });
        let folder = |controller| available.parent(controller).unwrap().folder.clone();
        assert_eq!(folder(Controller::Memory), own.parent().unwrap());
        assert_eq!(folder(Controller::Pids), own.parent().unwrap());
        assert_eq!(folder(Controller::Cpu), root.path());
    }

    #[test]
    fn a_group_tells_whose_it_is() {
        let name = group_name(7).unwrap();
        let owner = GroupOwner::parse(&name).unwrap();
        assert_eq!(Some(owner), GroupOwner::current());
        assert!(!owner.is_dead());
        let past = GroupOwner {
            started_ticks: owner.started_ticks.wrapping_add(1),
            ..owner
        };
        assert!(past.is_dead());
        let elsewhere = GroupOwner {
            namespace: owner.namespace.wrapping_add(1),
            ..past
        };
        assert!(!elsewhere.is_dead());
        assert_eq!(GroupOwner::parse("hotcell-x"), None);
    }
}
