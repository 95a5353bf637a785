//! Makes the plan of the walls from a spec and the facts of this machine. Pure except for checking
//! which host folders exist.

use walls::cgroups::{AvailableControllers, Controller};
use walls::plan::{
    CgroupSpec, CgroupVersion, IdMap, MountAccess, Process1Role, Resource, Rlimit, RootEntry,
    RootFilesystem, SandboxIdentity, WallsPlan, sandbox_user,
};

use crate::backends::root_entries::{HOSTNAME, UID, root_entries, writable};
use crate::limits::SandboxLimits;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};

/// Processes of the guest itself, in addition to those of commands.
pub(in crate::backends) const GUEST_PIDS: u32 = 4;

/// The relevant properties of this machine and of the caller.
#[derive(Debug, Clone)]
pub(in crate::backends) struct HostFacts {
    pub(in crate::backends) uid: u32,
    pub(in crate::backends) gid: u32,
    /// Root of the machine, not only of a namespace.
    pub(in crate::backends) is_host_root: bool,
    pub(in crate::backends) workspace_owner: (u32, u32),
    pub(in crate::backends) image_owner: Option<(u32, u32)>,
    pub(in crate::backends) groups: AvailableControllers,
    pub(in crate::backends) group_name: Option<String>,
    /// Processors that this process may use.
    pub(in crate::backends) processors: Vec<usize>,
    /// Distinguishes the sandboxes of one host.
    pub(in crate::backends) number: u32,
}

/// How owners on disk relate to the sandbox's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::backends) enum Ownership {
    /// The sandbox has its own user id, mapped on each mount. Needs the host's root.
    Mapped,
    /// The sandbox runs as the owner of the workspace, who is not root.
    Owner,
    /// The sandbox runs as the caller, who is not root.
    Caller,
}

pub(in crate::backends) fn plan(
    spec: &SandboxSpec,
    facts: &HostFacts,
    ownership: Ownership,
) -> WallsPlan {
    let limits = &spec.limits;
    let identity = identity(facts, ownership);
    let idmap = |owner: (u32, u32)| {
        (ownership == Ownership::Mapped).then_some(IdMap {
            disk_uid: owner.0,
            disk_gid: owner.1,
        })
    };
    let root = match &spec.root {
        RootSpec::Host => RootFilesystem::Empty,
        RootSpec::Image(image) => RootFilesystem::Image {
            folder: image.clone(),
            idmap: facts.image_owner.and_then(idmap),
            overlay_bytes: limits.disk.min(limits.memory / 2),
        },
    };
    let mut fittings = root_entries(&spec.root, limits);
    fittings.push(RootEntry::Bind {
        source: spec.workspace.clone(),
        target: WORKSPACE_PATH.into(),
        access: MountAccess::ReadWrite,
        idmap: idmap(facts.workspace_owner),
    });
    let groups = groups(limits, facts);
    let has = |controller| facts.groups.parent(controller).is_some() && facts.group_name.is_some();
    WallsPlan {
        identity,
        hostname: HOSTNAME.into(),
        writable: writable(&spec.root),
        root,
        root_entries: fittings,
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
        program: None,
        role: Process1Role::Guest,
    }
}

fn identity(facts: &HostFacts, ownership: Ownership) -> SandboxIdentity {
    let (outside_uid, outside_gid) = match ownership {
        Ownership::Mapped => {
            let own = sandbox_user(facts.number);
            (own, own)
        }
        Ownership::Owner => facts.workspace_owner,
        Ownership::Caller => (facts.uid, facts.gid),
    };
    SandboxIdentity {
        outside_uid,
        outside_gid,
        inside_uid: UID,
        inside_gid: UID,
        drop_groups: facts.is_host_root,
    }
}

pub(in crate::backends) fn rlimits(
    limits: &SandboxLimits,
    memory_group: bool,
    pids_group: bool,
) -> Vec<Rlimit> {
    let limit = |resource, value| Rlimit { resource, value };
    let mut all = vec![
        // Too small for any core dump, and the only value that also keeps the kernel from starting
        // the host's core handler, which runs outside the walls.
        limit(Resource::Core, 1),
        limit(Resource::FileSize, limits.disk),
        limit(Resource::LockedMemory, 64 << 20),
        limit(Resource::MessageQueues, 1 << 20),
        limit(Resource::OpenFiles, limits.open_files),
        limit(Resource::PendingSignals, 4096),
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

fn groups(limits: &SandboxLimits, facts: &HostFacts) -> Vec<CgroupSpec> {
    let Some(name) = &facts.group_name else {
        return Vec::new();
    };
    let mut groups: Vec<CgroupSpec> = Vec::new();
    for controller in [Controller::Memory, Controller::Cpu, Controller::Pids] {
        let Some(home) = facts.groups.parent(controller) else {
            continue;
        };
        let folder = home.folder.join(name);
        let settings = settings(controller, home.version, limits);
        let kill_counter = (controller == Controller::Memory).then(|| match home.version {
            CgroupVersion::V1 => "memory.oom_control".to_owned(),
            CgroupVersion::V2 => "memory.events".to_owned(),
        });
        match groups.iter_mut().find(|group| group.folder == folder) {
            Some(group) => {
                group.settings.extend(settings);
                group.oom_kill_file = group.oom_kill_file.take().or(kill_counter);
            }
            None => groups.push(CgroupSpec {
                folder,
                version: home.version,
                settings,
                oom_kill_file: kill_counter,
            }),
        }
    }
    groups
}

/// File, value, and whether the limit depends on it.
fn settings(
    controller: Controller,
    version: CgroupVersion,
    limits: &SandboxLimits,
) -> Vec<(String, String, bool)> {
    const PERIOD: u64 = 100_000;
    let quota = ((limits.cpus * PERIOD as f64) as u64).max(1000);
    let pids = limits.pids + GUEST_PIDS;
    let set = |file: &str, value: String| (file.to_owned(), value, true);
    let wish = |file: &str, value: String| (file.to_owned(), value, false);
    match (controller, version) {
        (Controller::Memory, CgroupVersion::V1) => vec![
            set("memory.limit_in_bytes", limits.memory.to_string()),
            // Socket buffers are accounted separately.
            wish(
                "memory.kmem.tcp.limit_in_bytes",
                (limits.memory / 4).to_string(),
            ),
            // Only if the kernel accounts swap.
            wish("memory.memsw.limit_in_bytes", limits.memory.to_string()),
        ],
        (Controller::Memory, CgroupVersion::V2) => vec![
            set("memory.max", limits.memory.to_string()),
            wish("memory.swap.max", "0".into()),
        ],
        (Controller::Cpu, CgroupVersion::V1) => vec![
            set("cpu.cfs_period_us", PERIOD.to_string()),
            set("cpu.cfs_quota_us", quota.to_string()),
        ],
        (Controller::Cpu, CgroupVersion::V2) => vec![set("cpu.max", format!("{quota} {PERIOD}"))],
        (Controller::Pids, _) => vec![set("pids.max", pids.to_string())],
    }
}
