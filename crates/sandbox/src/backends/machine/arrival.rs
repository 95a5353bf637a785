//! The message that assigns a sandbox to a waiting machine: the time, a seed, and the plan of the
//! walls inside it, which are those of the native backend. Pure except for the clock and the seed.

use std::fs::File;
use std::io::{self, Read};
use std::path::PathBuf;
use std::time::SystemTime;

use walls::cgroups::Available;
use walls::machine::Arrival;
use walls::plan::{IdMap, Plan, Root};

use crate::backends::furnishing::UID;
use crate::backends::native::planning::{self, Facts, Ownership};
use crate::spec::{RootSpec, SandboxSpec};

/// Paths at which a machine's init has mounted things.
const IMAGE: &str = "/image";
const WORKSPACE: &str = "/workspace";
const GROUPS: &str = "/sys/fs/cgroup";
const GROUP_NAME: &str = "hotcell";

pub(crate) fn arrival(spec: &SandboxSpec, processors: usize) -> io::Result<Arrival> {
    let mut seed = [0; 32];
    File::open("/dev/urandom")?.read_exact(&mut seed)?;
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    Ok(Arrival {
        clock: clock.unwrap_or_default(),
        seed,
        plan: plan(spec, processors),
    })
}

/// The machine belongs to one sandbox: its root user is really root, and all cgroup controllers are
/// available. The workspace arrives with the right owner and cannot be mapped; the image belongs to
/// root.
pub(crate) fn plan(spec: &SandboxSpec, processors: usize) -> Plan {
    let root = (0, 0);
    let inside = SandboxSpec {
        workspace: WORKSPACE.into(),
        root: RootSpec::Image(IMAGE.into()),
        ..spec.clone()
    };
    let facts = Facts {
        uid: root.0,
        gid: root.1,
        is_host_root: true,
        workspace_owner: (UID, UID),
        image_owner: Some(root),
        groups: Available::unified(PathBuf::from(GROUPS)),
        group_name: Some(GROUP_NAME.into()),
        processors: (0..processors).collect(),
        number: 0,
    };
    let mut plan = planning::plan(&inside, &facts, Ownership::Owner);
    if let Root::Image { idmap, .. } = &mut plan.root {
        *idmap = Some(IdMap {
            disk_uid: root.0,
            disk_gid: root.1,
        });
    }
    plan
}
