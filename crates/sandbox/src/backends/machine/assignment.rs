//! The message that assigns a sandbox to a waiting machine: the time, a seed, and the plan of the
//! walls inside it, which are those of the native backend. Pure except for the clock and the seed.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use walls::cgroups::AvailableControllers;
use walls::machine::MachineActivation;
use walls::plan::{IdMap, RootFilesystem, WallsPlan};

use crate::backends::native::wall_plan::{self, HostFacts, Ownership};
use crate::backends::root_entries::UID;
use crate::spec::{RootSpec, SandboxSpec};

/// Paths at which a machine's init has mounted things.
const IMAGE_PATH: &str = "/image";
const WORKSPACE_PATH: &str = "/workspace";
const CGROUP_ROOT: &str = "/sys/fs/cgroup";
const CGROUP_NAME: &str = "hotcell";

pub(crate) fn assignment(spec: &SandboxSpec, processors: usize) -> io::Result<MachineActivation> {
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(MachineActivation {
        clock: clock.unwrap_or_default(),
        seed,
        plan: plan(spec, processors),
    })
}

/// The machine belongs to one sandbox: its root user is really root, and all cgroup controllers are
/// available. The workspace arrives with the right owner and cannot be mapped; the image belongs to
/// root.
pub(crate) fn plan(spec: &SandboxSpec, processors: usize) -> WallsPlan {
    let root = (0, 0);
    let inside = SandboxSpec {
        workspace: WORKSPACE_PATH.into(),
        root: RootSpec::Image(IMAGE_PATH.into()),
        ..spec.clone()
    };
    let facts = HostFacts {
        uid: root.0,
        gid: root.1,
        is_host_root: true,
        workspace_owner: (UID, UID),
        image_owner: Some(root),
        groups: AvailableControllers::with_unified_parent(PathBuf::from(CGROUP_ROOT)),
        group_name: Some(CGROUP_NAME.into()),
        processors: (0..processors).collect(),
        number: 0,
    };
    let mut plan = wall_plan::plan(&inside, &facts, Ownership::Owner);
    if let RootFilesystem::Image { idmap, .. } = &mut plan.root {
        *idmap = Some(IdMap {
            disk_uid: root.0,
            disk_gid: root.1,
        });
    }
    plan
}
