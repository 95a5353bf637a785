//! From a spec and the facts of this machine to a plan of the walls. Pure but for a look at
//! which host folders exist.

use std::path::{Path, PathBuf};

use walls::cgroups::{Available, Controller};
use walls::plan::{
    Access, Fitting, Group, GroupVersion, IdMap, Identity, Plan, Resource, Rlimit, Root,
};

use super::host_root::{self, bind, file, folder, link};
use crate::limits::{BYTES_PER_INODE, Limits};
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE};

/// The user inside.
pub(super) const USER: &str = "hotcell";
pub(super) const UID: u32 = 1000;
pub(super) const HOME: &str = "/home/hotcell";
const HOSTNAME: &str = "hotcell";

/// First of the host user ids that sandboxes of root run as: far above any real user and below
/// the sign bit, one for each sandbox, so that no two share anything.
const FIRST_OUTSIDE: u32 = 0x7000_0000;

/// Processes of the guest itself, on top of what commands may have.
const GUEST_PIDS: u32 = 4;

/// What is so on this machine, and who asks.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    pub(super) uid: u32,
    pub(super) gid: u32,
    /// Root of the machine, not just of a namespace.
    pub(super) is_host_root: bool,
    pub(super) workspace_owner: (u32, u32),
    pub(super) image_owner: Option<(u32, u32)>,
    pub(super) groups: Available,
    pub(super) group_name: Option<String>,
    /// Processors that this process may use.
    pub(super) processors: Vec<usize>,
    /// Distinguishes the sandboxes of one host.
    pub(super) number: u32,
}

/// How owners on disk and the sandbox's user meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ownership {
    /// A user id of the sandbox's own, mapped on each mount. Needs the host's root.
    Mapped,
    /// The sandbox runs as the owner of the workspace, who is not root.
    Owner,
    /// The sandbox runs as the caller, who is not root.
    Caller,
}

pub(super) fn plan(spec: &SandboxSpec, facts: &Facts, ownership: Ownership) -> Plan {
    let limits = &spec.limits;
    let identity = identity(facts, ownership);
    let idmap = |owner: (u32, u32)| {
        (ownership == Ownership::Mapped).then_some(IdMap {
            disk_uid: owner.0,
            disk_gid: owner.1,
        })
    };
    let mut fittings = Vec::new();
    let root = match &spec.root {
        RootSpec::Host => {
            fittings.extend(host_root::fittings());
            Root::Empty
        }
        RootSpec::Image(image) => Root::Image {
            folder: image.clone(),
            idmap: facts.image_owner.and_then(idmap),
            overlay_bytes: limits.disk.min(limits.memory / 2),
        },
    };
    fittings.extend(inventory(limits));
    fittings.push(Fitting::Bind {
        source: spec.workspace.clone(),
        target: WORKSPACE.into(),
        access: Access::ReadWrite,
        idmap: idmap(facts.workspace_owner),
    });
    let groups = groups(limits, facts);
    let has = |controller| facts.groups.home(controller).is_some() && facts.group_name.is_some();
    Plan {
        identity,
        hostname: HOSTNAME.into(),
        writable: writable(&root),
        root,
        fittings,
        groups,
        rlimits: rlimits(limits, has(Controller::Memory), has(Controller::Pids)),
        processors: (!has(Controller::Cpu)).then(|| {
            facts
                .processors
                .iter()
                .copied()
                .take(limits.cpus.ceil() as usize)
                .collect()
        }),
        deadline: spec.deadline(),
    }
}

fn identity(facts: &Facts, ownership: Ownership) -> Identity {
    let (outside_uid, outside_gid) = match ownership {
        Ownership::Mapped => {
            let own = FIRST_OUTSIDE + (facts.number & 0x00ff_ffff);
            (own, own)
        }
        Ownership::Owner => facts.workspace_owner,
        Ownership::Caller => (facts.uid, facts.gid),
    };
    Identity {
        outside_uid,
        outside_gid,
        inside_uid: UID,
        inside_gid: UID,
        drop_groups: facts.is_host_root,
    }
}

/// What every root has, the host's or an image.
fn inventory(limits: &Limits) -> Vec<Fitting> {
    let tmpfs = |target: &str, bytes: u64, mode| Fitting::Tmpfs {
        target: target.into(),
        bytes,
        inodes: (bytes / BYTES_PER_INODE / 4).clamp(1024, 1 << 20),
        mode,
    };
    let mut all = vec![
        folder("/etc"),
        file(
            "/etc/passwd",
            format!(
                "root:x:0:0:root:/root:/usr/sbin/nologin\n\
                 {USER}:x:{UID}:{UID}:{USER}:{HOME}:/bin/bash\n\
                 nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
            ),
        ),
        file(
            "/etc/group",
            format!("root:x:0:\n{USER}:x:{UID}:\nnogroup:x:65534:\n"),
        ),
        file(
            "/etc/hosts",
            format!("127.0.0.1 localhost {HOSTNAME}\n::1 localhost {HOSTNAME}\n"),
        ),
        file("/etc/hostname", format!("{HOSTNAME}\n")),
        file(
            "/etc/resolv.conf",
            "# Names are resolved outside, by the proxy.\n",
        ),
        Fitting::Proc {
            target: "/proc".into(),
        },
        tmpfs("/dev", 64 * 1024, 0o755),
    ];
    for device in ["null", "zero", "full", "random", "urandom", "tty"] {
        all.push(bind(Path::new("/dev").join(device), Access::Device));
    }
    all.push(Fitting::Terminals {
        target: "/dev/pts".into(),
    });
    for (name, points_to) in [
        ("/dev/ptmx", "pts/ptmx"),
        ("/dev/fd", "/proc/self/fd"),
        ("/dev/stdin", "/proc/self/fd/0"),
        ("/dev/stdout", "/proc/self/fd/1"),
        ("/dev/stderr", "/proc/self/fd/2"),
    ] {
        all.push(link(name, points_to));
    }
    all.extend([
        tmpfs("/dev/shm", limits.memory / 8, 0o1777),
        tmpfs("/tmp", limits.memory / 2, 0o1777),
        tmpfs(HOME, limits.memory / 4, 0o755),
        tmpfs("/run", (limits.memory / 16).min(16 << 20), 0o755),
    ]);
    all
}

/// For Landlock. An image's root is an overlay that belongs to the sandbox alone.
fn writable(root: &Root) -> Vec<PathBuf> {
    let paths: &[&str] = match root {
        Root::Image { .. } => &["/"],
        Root::Empty => &[
            WORKSPACE,
            "/tmp",
            HOME,
            "/run",
            "/proc",
            "/dev/shm",
            "/dev/pts",
            "/dev/null",
            "/dev/zero",
            "/dev/full",
            "/dev/random",
            "/dev/urandom",
            "/dev/tty",
        ],
    };
    paths.iter().map(PathBuf::from).collect()
}

fn rlimits(limits: &Limits, memory_group: bool, pids_group: bool) -> Vec<Rlimit> {
    let limit = |resource, value| Rlimit { resource, value };
    let mut all = vec![
        // Too small for any core, and the one value that also keeps the kernel from starting the
        // host's own handler, outside all walls.
        limit(Resource::Core, 1),
        limit(Resource::FileSize, limits.disk),
        limit(Resource::LockedMemory, 64 << 20),
        limit(Resource::MessageQueues, 1 << 20),
        limit(Resource::OpenFiles, limits.open_files),
    ];
    if !memory_group {
        all.push(limit(Resource::Data, limits.memory));
    }
    if !pids_group {
        all.push(limit(
            Resource::Processes,
            u64::from(limits.pids + GUEST_PIDS),
        ));
    }
    all
}

fn groups(limits: &Limits, facts: &Facts) -> Vec<Group> {
    let Some(name) = &facts.group_name else {
        return Vec::new();
    };
    let mut groups: Vec<Group> = Vec::new();
    for controller in [Controller::Memory, Controller::Cpu, Controller::Pids] {
        let Some(home) = facts.groups.home(controller) else {
            continue;
        };
        let folder = home.folder.join(name);
        let settings = settings(controller, home.version, limits);
        let kill_counter = (controller == Controller::Memory).then(|| match home.version {
            GroupVersion::V1 => "memory.oom_control".to_owned(),
            GroupVersion::V2 => "memory.events".to_owned(),
        });
        match groups.iter_mut().find(|group| group.folder == folder) {
            Some(group) => {
                group.settings.extend(settings);
                group.kill_counter = group.kill_counter.take().or(kill_counter);
            }
            None => groups.push(Group {
                folder,
                version: home.version,
                settings,
                kill_counter,
            }),
        }
    }
    groups
}

/// File, value, and whether the limit stands and falls with it.
fn settings(
    controller: Controller,
    version: GroupVersion,
    limits: &Limits,
) -> Vec<(String, String, bool)> {
    const PERIOD: u64 = 100_000;
    let quota = ((limits.cpus * PERIOD as f64) as u64).max(1000);
    let pids = limits.pids + GUEST_PIDS;
    let set = |file: &str, value: String| (file.to_owned(), value, true);
    let wish = |file: &str, value: String| (file.to_owned(), value, false);
    match (controller, version) {
        (Controller::Memory, GroupVersion::V1) => vec![
            set("memory.limit_in_bytes", limits.memory.to_string()),
            // Buffers of sockets are counted apart.
            wish(
                "memory.kmem.tcp.limit_in_bytes",
                (limits.memory / 4).to_string(),
            ),
            // Only where the kernel counts swap.
            wish("memory.memsw.limit_in_bytes", limits.memory.to_string()),
        ],
        (Controller::Memory, GroupVersion::V2) => vec![
            set("memory.max", limits.memory.to_string()),
            wish("memory.swap.max", "0".into()),
        ],
        (Controller::Cpu, GroupVersion::V1) => vec![
            set("cpu.cfs_period_us", PERIOD.to_string()),
            set("cpu.cfs_quota_us", quota.to_string()),
        ],
        (Controller::Cpu, GroupVersion::V2) => vec![set("cpu.max", format!("{quota} {PERIOD}"))],
        (Controller::Pids, _) => vec![set("pids.max", pids.to_string())],
    }
}
