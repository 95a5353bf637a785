//! The native walls around `runsc`: the changes to the plan for running `runsc` instead of the
//! guest behind them. Pure. Entry type: [`RunscWalls`].

use std::path::{Path, PathBuf};

use walls::plan::{MountAccess, Resource, RootEntry, RootFilesystem, WallsPlan};

use super::config::OciConfig;
use super::runsc::{KVM_PATH, RunscProgram, WorkingPlatform};
use crate::backends::confined_guest::GUEST_PATH;
use crate::spec::SandboxSpec;

/// Path of the sandbox's root inside the root of `runsc`.
pub(super) const SANDBOX_ROOT: &str = "/bundle/root";

const BUNDLE_DIR: &str = "/bundle";
const STATE_DIR: &str = "/state";
const RUNSC_PATH: &str = "/runsc";

/// A library that works around a flaw of older versions: see its source.
static PRELOAD_LIBRARY: &[u8] = include_bytes!(env!("HOTCELL_PRELOAD"));
const PRELOAD_PATH: &str = "/.hotcell/preload.so";

/// Memory for gVisor itself, in addition to the memory of commands: its kernel, page tables and
/// open files, plus what commands allocate between two polls of the guest. Exceeding this outer
/// limit ends the whole sandbox.
const GVISOR_MEMORY_BYTES: u64 = 512 << 20;

/// Threads of gVisor for each thread of a command, and its constant number of threads. On the
/// `ptrace` platform every thread of its kernel may need one in every process, and gVisor ends if
/// it cannot create one.
const GVISOR_THREADS_PER_THREAD: u32 = 64;
const GVISOR_BASE_THREADS: u32 = 1024;

pub(super) struct RunscWalls<'a> {
    spec: &'a SandboxSpec,
    runsc: &'a Path,
    arguments: Vec<String>,
    uses_kvm: bool,
    config: String,
}

impl<'a> RunscWalls<'a> {
    pub(super) fn new(
        spec: &'a SandboxSpec,
        program: &'a RunscProgram,
        verdict: &WorkingPlatform,
    ) -> std::io::Result<Self> {
        Ok(Self {
            spec,
            runsc: &program.path,
            arguments: arguments(verdict),
            uses_kvm: verdict.platform == "kvm",
            config: serde_json::to_string(&OciConfig::new(spec))?,
        })
    }

    /// The spec with extra room for gVisor itself.
    pub(super) fn outer_spec(&self) -> SandboxSpec {
        let mut around = self.spec.clone();
        let limits = &mut around.limits;
        let more = GVISOR_MEMORY_BYTES + limits.memory / 2;
        limits.memory = limits.memory.saturating_add(more);
        let threads = limits.pids.saturating_mul(GVISOR_THREADS_PER_THREAD);
        limits.pids = threads.saturating_add(GVISOR_BASE_THREADS);
        around
    }

    /// Adapts a plan that was made for the spec of [`Self::outer_spec`].
    pub(super) fn adapt(&self, plan: &mut WallsPlan) {
        plan.identity.inside_uid = 0;
        plan.identity.inside_gid = 0;
        if let RootFilesystem::Image { overlay_bytes, .. } = &mut plan.root {
            let limits = &self.spec.limits;
            *overlay_bytes = limits.disk.min(limits.memory / 2);
        }
        plan.root_entries = std::mem::take(&mut plan.root_entries)
            .into_iter()
            .filter_map(to_mount_point)
            .collect();
        plan.root_entries.extend([
            folder("/sys"),
            RootEntry::GuestProgram {
                target: GUEST_PATH.into(),
            },
            RootEntry::Executable {
                target: PRELOAD_PATH.into(),
                content: PRELOAD_LIBRARY.to_vec(),
            },
            RootEntry::File {
                target: "/etc/ld.so.preload".into(),
                content: format!("{PRELOAD_PATH}\n"),
            },
        ]);
        // The other limits are for commands, and gVisor's kernel enforces them. These apply to all
        // of gVisor.
        plan.rlimits
            .retain(|limit| matches!(limit.resource, Resource::Core | Resource::Processes));
        plan.writable.clear();
        plan.program = Some(self.program());
    }

    fn program(&self) -> walls::plan::RuntimeProgram {
        let mut fittings = vec![
            bind(self.runsc, RUNSC_PATH, MountAccess::ReadOnly),
            RootEntry::Proc {
                target: "/proc".into(),
            },
            // `runsc` makes the roots of its own processes here.
            folder("/tmp"),
            folder("/etc"),
            folder("/dev"),
            bind("/dev/null", "/dev/null", MountAccess::Device),
            RootEntry::Tmpfs {
                target: STATE_DIR.into(),
                bytes: 4 << 20,
                inodes: 256,
                mode: 0o700,
            },
            folder(BUNDLE_DIR),
            RootEntry::File {
                target: Path::new(BUNDLE_DIR).join("config.json"),
                content: self.config.clone(),
            },
        ];
        if self.uses_kvm {
            fittings.push(bind(KVM_PATH, KVM_PATH, MountAccess::Device));
        }
        walls::plan::RuntimeProgram {
            path: RUNSC_PATH.into(),
            arguments: self.arguments.clone(),
            root_entries: fittings,
            sandbox_root: SANDBOX_ROOT.into(),
        }
    }
}

/// Adapts an entry: gVisor's kernel mounts its own `/proc`, `/dev` and tmpfs, and only needs mount
/// points for them.
fn to_mount_point(fitting: RootEntry) -> Option<RootEntry> {
    let is_device = |target: &Path| target.starts_with("/dev");
    match fitting {
        RootEntry::Tmpfs { target, .. } | RootEntry::Proc { target } => {
            let kept = target == Path::new("/dev") || !is_device(&target);
            kept.then_some(RootEntry::Folder {
                target,
                mode: 0o755,
            })
        }
        RootEntry::Terminals { .. } => None,
        RootEntry::Link { ref target, .. } | RootEntry::Bind { ref target, .. }
            if is_device(target) =>
        {
            None
        }
        other => Some(other),
    }
}

fn folder(target: &str) -> RootEntry {
    RootEntry::Folder {
        target: target.into(),
        mode: 0o755,
    }
}

fn bind(source: impl Into<PathBuf>, target: &str, access: MountAccess) -> RootEntry {
    RootEntry::Bind {
        source: source.into(),
        target: target.into(),
        access,
        idmap: None,
    }
}

/// Works for any version of `runsc`: a version that lacks a flag lacks its feature too.
fn arguments(verdict: &WorkingPlatform) -> Vec<String> {
    let mut all = vec![
        "runsc".to_owned(),
        format!("--root={STATE_DIR}"),
        format!("--platform={}", verdict.platform),
        "--network=none".to_owned(),
        // The namespaces and cgroups exist already.
        "--rootless".to_owned(),
        "--ignore-cgroups".to_owned(),
        "--file-access=exclusive".to_owned(),
    ];
    for (flag, value) in [
        ("file-access-mounts", "shared"),
        ("host-uds", "none"),
        ("host-fifo", "none"),
        // The root needs no further overlay; files go through the gofer.
        ("overlay2", "none"),
        ("directfs", "false"),
    ] {
        if verdict.has_flag(flag) {
            all.push(format!("--{flag}={value}"));
        }
    }
    all.extend([
        "run".to_owned(),
        format!("--bundle={BUNDLE_DIR}"),
        "hotcell".to_owned(),
    ]);
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Duration;

    use walls::plan::{Rlimit, SandboxIdentity};

    use super::*;
    use crate::backends::gvisor::runsc::RunscFeatures;
    use crate::backends::root_entries::root_entries;
    use crate::spec::{RootSpec, WORKSPACE_PATH};

    fn verdict(flags: &[&str], platform: &str) -> WorkingPlatform {
        let lines: String = flags
            .iter()
            .map(|flag| format!("  -{flag} value\n"))
            .collect();
        RunscFeatures::parse(&lines).verdict(platform)
    }

    fn plan(spec: &SandboxSpec) -> WallsPlan {
        let limit = |resource| Rlimit { resource, value: 7 };
        let mut fittings = root_entries(&spec.root, &spec.limits);
        fittings.push(bind("/on/the/host", WORKSPACE_PATH, MountAccess::ReadWrite));
        WallsPlan {
            identity: SandboxIdentity {
                outside_uid: 4242,
                outside_gid: 4242,
                inside_uid: 1000,
                inside_gid: 1000,
                drop_groups: true,
            },
            hostname: "hotcell".into(),
            root: match &spec.root {
                RootSpec::Host => RootFilesystem::Empty,
                RootSpec::Image(folder) => RootFilesystem::Image {
                    folder: folder.clone(),
                    idmap: None,
                    overlay_bytes: u64::MAX,
                },
            },
            root_entries: fittings,
            groups: Vec::new(),
            rlimits: vec![
                limit(Resource::Core),
                limit(Resource::FileSize),
                limit(Resource::OpenFiles),
                limit(Resource::Processes),
            ],
            processors: None,
            writable: vec!["/".into()],
            deadline: Some(Duration::from_secs(1)),
            program: None,
            role: walls::plan::Process1Role::Guest,
        }
    }

    fn adapted(spec: &SandboxSpec, verdict: &WorkingPlatform) -> WallsPlan {
        let program = RunscProgram::at("/usr/bin/runsc");
        let enclosure = RunscWalls::new(spec, &program, verdict).unwrap();
        let mut plan = plan(spec);
        enclosure.adapt(&mut plan);
        plan
    }

    #[test]
    fn only_what_a_version_knows_is_asked_of_it() {
        let check = |flags: &[&str], expect: &[&str]| {
            let all = arguments(&verdict(flags, "systrap"));
            assert!(all.contains(&"--platform=systrap".to_owned()));
            assert!(all.contains(&"--network=none".to_owned()));
            assert_eq!(all.last().unwrap(), "hotcell");
            let known = [
                "--host-uds=none",
                "--host-fifo=none",
                "--overlay2=none",
                "--directfs=false",
            ];
            let asked: Vec<_> = known
                .into_iter()
                .filter(|flag| all.iter().any(|one| one == flag))
                .collect();
            assert_eq!(asked, expect);
        };
        check(&[], &[]);
        check(
            &["overlay2", "host-uds"],
            &["--host-uds=none", "--overlay2=none"],
        );
        check(&["directfs"], &["--directfs=false"]);
    }

    #[test]
    fn runsc_is_alone_with_the_root_of_the_sandbox() {
        let spec = SandboxSpec::new("/on/the/host");
        let plan = adapted(&spec, &verdict(&[], "ptrace"));
        let program = plan.program.unwrap();
        assert_eq!(program.path, Path::new("/runsc"));
        assert_eq!(program.sandbox_root, Path::new(SANDBOX_ROOT));
        let sources = |fittings: &[RootEntry]| -> Vec<PathBuf> {
            let binds = fittings.iter().filter_map(|fitting| match fitting {
                RootEntry::Bind { source, .. } => Some(source.clone()),
                _ => None,
            });
            binds.collect()
        };
        let expect = ["/usr/bin/runsc", "/dev/null"].map(PathBuf::from);
        assert_eq!(sources(&program.root_entries), expect);
        assert!(sources(&plan.root_entries).contains(&"/on/the/host".into()));
        // gVisor's kernel has its own devices.
        let devices = sources(&plan.root_entries);
        assert!(!devices.iter().any(|source| source.starts_with("/dev")));
        let is_served = |fitting: &RootEntry| {
            matches!(
                fitting,
                RootEntry::Tmpfs { .. } | RootEntry::Proc { .. } | RootEntry::Terminals { .. }
            )
        };
        assert!(!plan.root_entries.iter().any(is_served));
        assert!(plan.writable.is_empty());
    }

    #[test]
    fn it_is_root_of_its_namespace_alone_and_kept_by_what_is_for_all_of_it() {
        let mut spec = SandboxSpec::new("/on/the/host");
        spec.root = RootSpec::Image("/image".into());
        spec.limits.memory = 64 << 20;
        spec.limits.pids = 10;
        let plan = adapted(&spec, &verdict(&[], "kvm"));
        assert_eq!(plan.identity.inside_uid, 0);
        assert_eq!(plan.identity.outside_uid, 4242);
        let kept: Vec<_> = plan.rlimits.iter().map(|limit| limit.resource).collect();
        assert_eq!(kept, [Resource::Core, Resource::Processes]);
        // The overlay counts as the sandbox's memory, not as gVisor's.
        assert!(matches!(
            plan.root,
            RootFilesystem::Image {
                overlay_bytes: 33_554_432,
                ..
            }
        ));
        let has_kvm = |fitting: &RootEntry| matches!(fitting, RootEntry::Bind { target, .. } if target == Path::new(KVM_PATH));
        assert!(plan.program.unwrap().root_entries.iter().any(has_kvm));
        let program = RunscProgram::at("/usr/bin/runsc");
        let enclosure = RunscWalls::new(&spec, &program, &verdict(&[], "kvm")).unwrap();
        let around = enclosure.outer_spec();
        assert_eq!(around.limits.memory, (64 + 32 + 512) << 20);
        assert_eq!(around.limits.pids, 1664);
    }
}
