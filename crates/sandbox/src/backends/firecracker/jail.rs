//! The jail that Firecracker's own `jailer` makes: a folder that becomes its root, a separate user,
//! and cgroups where available. For the host's root; other users have native walls around
//! Firecracker.
//!
//! The jailer expects all files of the machine in the folder. It gets hard links to the files in
//! the cache, which are read-only and belong to root: a jailed process can remove a link, but
//! cannot change a file that another machine uses. Entry type: [`Jail`].

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Uid, chown};
use walls::cgroups::{AvailableControllers, Controller, is_abandoned};
use walls::plan::CgroupVersion;

use super::SHARED_DIR;
use crate::backends::confined_guest::own_folder;
use crate::limits::SandboxLimits;

/// First host user id of jailed machines: far above any real user, below the sign bit, and not used
/// by native sandboxes.
const FIRST_JAIL_UID: u32 = 0x7200_0000;

/// Memory that Firecracker needs in addition to its machine's memory.
pub(super) const MEMORY_OVERHEAD_BYTES: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct Jail {
    pub(super) name: String,
    base: PathBuf,
    firecracker: PathBuf,
    user: u32,
    group: Option<JailCgroup>,
}

/// A cgroup that the jailer creates and this program removes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JailCgroup {
    folder: PathBuf,
    /// The path below the mount point, as the jailer expects it.
    parent: String,
    settings: Vec<String>,
}

impl Jail {
    /// `name` consists of letters, digits and hyphens; `number` must differ between the jails of
    /// this host.
    pub(super) fn new(
        cache: &Path,
        firecracker: &Path,
        name: String,
        number: u32,
        group: Option<JailCgroup>,
    ) -> io::Result<Self> {
        Ok(Self {
            base: own_folder(&base(cache))?,
            firecracker: firecracker.to_owned(),
            user: FIRST_JAIL_UID + (number & 0x00ff_ffff),
            name,
            group,
        })
    }

    /// The arguments of the jailer.
    pub(super) fn arguments(&self, api_socket: &str) -> Vec<String> {
        let text = |path: &Path| path.to_string_lossy().into_owned();
        let mut all: Vec<String> = [
            ("--id", self.name.clone()),
            ("--exec-file", text(&self.firecracker)),
            ("--uid", self.user.to_string()),
            ("--gid", self.user.to_string()),
            ("--chroot-base-dir", text(&self.base)),
        ]
        .into_iter()
        .flat_map(|(name, value)| [name.to_owned(), value])
        .collect();
        if let Some(group) = &self.group {
            let options = ["--cgroup-version", "2", "--parent-cgroup", &group.parent];
            all.extend(options.map(str::to_owned));
            for setting in &group.settings {
                all.extend(["--cgroup".to_owned(), setting.clone()]);
            }
        }
        let rest = ["--", "--api-sock", api_socket];
        all.extend(rest.map(str::to_owned));
        all
    }

    /// The folder that becomes the root.
    pub(super) fn root(&self) -> PathBuf {
        self.own().join("root")
    }

    /// The whole jail, below a folder with the program's name, as the jailer has it.
    fn own(&self) -> PathBuf {
        let program = self.firecracker.file_name().unwrap_or_default();
        self.base.join(program).join(&self.name)
    }

    /// Makes the root with these files in it, and the shared folder, which is the only one that the
    /// jailed user owns.
    pub(super) fn populate(&self, files: &[(PathBuf, &str)]) -> io::Result<PathBuf> {
        let root = self.root();
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true).mode(0o755).create(&root)?;
        for (source, name) in files {
            link_or_copy(source, &root.join(name.trim_start_matches('/')))?;
        }
        let room = root.join(SHARED_DIR.trim_start_matches('/'));
        fs::DirBuilder::new().mode(0o700).create(&room)?;
        let (uid, gid) = (Uid::from_raw(self.user), Gid::from_raw(self.user));
        chown(&room, Some(uid), Some(gid))?;
        Ok(room)
    }

    /// Removes the jail. No process may run in it any more.
    pub(super) fn remove(&self) {
        let _ = fs::remove_dir_all(self.own());
        if let Some(group) = &self.group {
            let _ = fs::remove_dir(&group.folder);
        }
    }
}

/// The folder of all jails.
fn base(cache: &Path) -> PathBuf {
    cache.join("firecracker").join("jails")
}

/// Removes the jails of dead processes. Cgroups are removed elsewhere.
pub(super) fn remove_stale(cache: &Path) {
    for program in fs::read_dir(base(cache)).into_iter().flatten().flatten() {
        for jail in fs::read_dir(program.path()).into_iter().flatten().flatten() {
            if jail.file_name().to_str().is_some_and(is_abandoned) {
                let _ = fs::remove_dir_all(jail.path());
            }
        }
    }
}

/// Hard-links a file; copies it if the jail is on another file system.
fn link_or_copy(source: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(source, target) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            fs::copy(source, target).map(drop)
        }
        outcome => outcome,
    }
}

/// The cgroup of a jail, if one version 2 cgroup has both controllers. Otherwise only the machine's
/// size and the walls inside it enforce the limits.
pub(super) fn group(
    available: &AvailableControllers,
    name: &str,
    memory: u64,
    limits: &SandboxLimits,
) -> Option<JailCgroup> {
    let memory_home = available.parent(Controller::Memory)?;
    let cpu_home = available.parent(Controller::Cpu)?;
    let is_one = memory_home.folder == cpu_home.folder;
    if memory_home.version != CgroupVersion::V2 || !is_one {
        return None;
    }
    let mounts = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
    let parent = mounts
        .iter()
        .find_map(|mount| memory_home.folder.strip_prefix(mount).ok())?;
    const PERIOD: u64 = 100_000;
    let quota = ((limits.cpus * PERIOD as f64) as u64).max(1000);
    Some(JailCgroup {
        folder: memory_home.folder.join(name),
        parent: parent.to_str()?.to_owned(),
        settings: vec![
            format!("memory.max={}", memory + MEMORY_OVERHEAD_BYTES),
            format!("cpu.max={quota} {PERIOD}"),
        ],
    })
}

/// Finds a program by its path, or by its name in the standard folders.
pub(super) fn find(program: &Path) -> Option<PathBuf> {
    const FOLDERS: &[&str] = &[
        "/usr/local/bin",
        "/usr/bin",
        "/bin",
        "/usr/local/sbin",
        "/usr/sbin",
        "/sbin",
    ];
    if program.components().count() > 1 {
        return program.canonicalize().ok().filter(|path| path.is_file());
    }
    let name: OsString = program.into();
    FOLDERS
        .iter()
        .map(|folder| Path::new(folder).join(&name))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    fn jail(place: &Path, group: Option<JailCgroup>) -> Jail {
        let firecracker = Path::new("/opt/firecracker-v1.13.1");
        Jail::new(place, firecracker, "hotcell-1-2-3-4".into(), 5, group).unwrap()
    }

    #[test]
    fn the_jailer_is_told_everything() {
        let place = tempfile::tempdir().unwrap();
        let base = place.path().join("firecracker/jails");
        let plain = format!(
            "--id hotcell-1-2-3-4 --exec-file /opt/firecracker-v1.13.1 --uid 1912602629 \
             --gid 1912602629 --chroot-base-dir {}",
            base.display()
        );
        let check = |group: Option<JailCgroup>, options: &str| {
            let said = jail(place.path(), group)
                .arguments("/room/api.sock")
                .join(" ");
            assert_eq!(
                said,
                format!("{plain}{options} -- --api-sock /room/api.sock")
            );
        };
        check(None, "");
        let limits = SandboxLimits {
            cpus: 1.5,
            ..SandboxLimits::default()
        };
        let available = AvailableControllers::with_unified_parent("/sys/fs/cgroup/user.slice");
        check(
            group(&available, "n", 1 << 20, &limits),
            " --cgroup-version 2 --parent-cgroup user.slice --cgroup memory.max=68157440 \
             --cgroup cpu.max=150000 100000",
        );
        assert_eq!(
            group(&AvailableControllers::default(), "n", 1, &limits),
            None
        );
    }

    #[test]
    fn what_is_in_a_jail_is_linked_and_goes_with_it() {
        if !nix::unistd::geteuid().is_root() {
            // Only root can change the owner of a folder. Ordinary users get an error; they do not
            // use jails.
            let place = tempfile::tempdir().unwrap();
            let refused = jail(place.path(), None).populate(&[]).unwrap_err();
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let disk = place.path().join("disk");
        fs::write(&disk, "disk").unwrap();
        let jail = jail(place.path(), None);
        let room = jail.populate(&[(disk.clone(), "/disk")]).unwrap();
        let expect = place
            .path()
            .join("firecracker/jails/firecracker-v1.13.1/hotcell-1-2-3-4/root");
        assert_eq!(jail.root(), expect);
        let inode = |path: &Path| fs::metadata(path).unwrap().ino();
        assert_eq!(inode(&expect.join("disk")), inode(&disk));
        assert_eq!(fs::metadata(&room).unwrap().uid(), jail.user);
        jail.remove();
        assert!(!expect.exists());
        assert_eq!(fs::read_to_string(&disk).unwrap(), "disk");
    }
}
