//! The sandbox as `runsc` reads it: the parts of an OCI `config.json` that are used here. Plain
//! data, made from a spec; touches nothing. Entry point: [`OciConfig::new`].

use std::path::{Path, PathBuf};

use serde::Serialize;
use walls::plan::RootEntry;

use super::runsc_walls::SANDBOX_ROOT;
use crate::backends::confined_guest::GUEST_PATH;
use crate::backends::native::wall_plan::GUEST_PIDS;
use crate::backends::root_entries::{HOSTNAME, root_entries};
use crate::limits::SandboxLimits;
use crate::spec::{RootSpec, SandboxSpec, WORKSPACE_PATH};

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct OciConfig {
    oci_version: &'static str,
    process: Process,
    root: Root,
    hostname: &'static str,
    mounts: Vec<Mount>,
    linux: Linux,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Process {
    user: User,
    args: [&'static str; 2],
    cwd: &'static str,
    capabilities: Capabilities,
    rlimits: Vec<Rlimit>,
    no_new_privileges: bool,
}

/// The owner of the workspace, as gVisor's kernel sees it.
#[derive(Debug, Serialize)]
struct User {
    uid: u32,
    gid: u32,
}

/// Capabilities in gVisor's kernel. They give no rights in the host's kernel.
#[derive(Debug, Serialize)]
struct Capabilities {
    bounding: &'static [&'static str],
    effective: &'static [&'static str],
    permitted: &'static [&'static str],
}

/// Capabilities that the guest needs to confine itself. It drops them before any command runs.
const CONFINEMENT_CAPABILITIES: &[&str] =
    &["CAP_CHOWN", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_ADMIN"];

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Rlimit {
    #[serde(rename = "type")]
    kind: &'static str,
    soft: u64,
    hard: u64,
}

#[derive(Debug, Serialize)]
struct Root {
    path: &'static str,
    readonly: bool,
}

#[derive(Debug, PartialEq, Eq, Serialize)]
struct Mount {
    destination: PathBuf,
    #[serde(rename = "type")]
    kind: &'static str,
    source: PathBuf,
    options: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Linux {
    namespaces: Vec<Namespace>,
}

#[derive(Debug, Serialize)]
struct Namespace {
    #[serde(rename = "type")]
    kind: &'static str,
}

impl OciConfig {
    pub(super) fn new(spec: &SandboxSpec) -> Self {
        Self {
            oci_version: "1.0.2",
            process: Process {
                user: User { uid: 0, gid: 0 },
                args: [GUEST_PATH, "contained"],
                cwd: "/",
                capabilities: Capabilities {
                    bounding: CONFINEMENT_CAPABILITIES,
                    effective: CONFINEMENT_CAPABILITIES,
                    permitted: CONFINEMENT_CAPABILITIES,
                },
                rlimits: rlimits(&spec.limits),
                no_new_privileges: true,
            },
            root: Root {
                path: SANDBOX_ROOT,
                // An image is under an overlay of this sandbox.
                readonly: spec.root == RootSpec::Host,
            },
            hostname: HOSTNAME,
            mounts: mounts(spec),
            linux: Linux {
                namespaces: ["pid", "network", "ipc", "uts", "mount"]
                    .map(|kind| Namespace { kind })
                    .into(),
            },
        }
    }
}

/// Limits that gVisor's kernel enforces: the number of processes in total, the others per process.
fn rlimits(limits: &SandboxLimits) -> Vec<Rlimit> {
    let limit = |kind, value| Rlimit {
        kind,
        soft: value,
        hard: value,
    };
    vec![
        limit("RLIMIT_CORE", 1),
        limit("RLIMIT_DATA", limits.memory),
        limit("RLIMIT_FSIZE", limits.disk),
        limit("RLIMIT_MEMLOCK", 64 << 20),
        limit("RLIMIT_MSGQUEUE", 1 << 20),
        limit("RLIMIT_NOFILE", limits.open_files),
        limit("RLIMIT_NPROC", u64::from(limits.pids + GUEST_PIDS)),
    ]
}

/// The file systems that gVisor's kernel mounts, and the workspace.
fn mounts(spec: &SandboxSpec) -> Vec<Mount> {
    let mount = |destination: PathBuf, kind, options: &[&str]| Mount {
        destination,
        kind,
        source: kind.into(),
        options: options.iter().map(ToString::to_string).collect(),
    };
    let mut mounts = vec![
        mount("/proc".into(), "proc", &["nosuid", "nodev", "noexec"]),
        mount("/dev".into(), "tmpfs", &["nosuid", "mode=755"]),
        // gVisor would show a synthetic `/sys`; native walls have none.
        mount("/sys".into(), "tmpfs", &["ro", "size=4096", "mode=000"]),
    ];
    for fitting in root_entries(&spec.root, &spec.limits) {
        if let RootEntry::Tmpfs {
            target,
            bytes,
            mode,
            ..
        } = fitting
            && target != Path::new("/dev")
        {
            let (size, mode) = (format!("size={bytes}"), format!("mode={mode:o}"));
            mounts.push(mount(target, "tmpfs", &["nosuid", "nodev", &size, &mode]));
        }
    }
    let workspace = PathBuf::from(format!("{SANDBOX_ROOT}{WORKSPACE_PATH}"));
    mounts.push(Mount {
        source: workspace,
        ..mount(
            WORKSPACE_PATH.into(),
            "bind",
            &["rbind", "rw", "nosuid", "nodev"],
        )
    });
    mounts
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn json(change: impl FnOnce(&mut SandboxSpec)) -> serde_json::Value {
        let mut spec = SandboxSpec::new("/somewhere/on/the/host");
        spec.limits.memory = 1 << 30;
        change(&mut spec);
        serde_json::to_value(OciConfig::new(&spec)).unwrap()
    }

    #[test]
    fn the_guest_is_process_1_with_rights_to_confine_itself_alone() {
        let config = json(|_| {});
        let process = &config["process"];
        assert_eq!(
            process["args"],
            serde_json::json!([GUEST_PATH, "contained"])
        );
        for set in ["bounding", "effective", "permitted"] {
            assert_eq!(
                process["capabilities"][set],
                serde_json::json!(CONFINEMENT_CAPABILITIES)
            );
        }
        assert_eq!(process["capabilities"].as_object().unwrap().len(), 3);
        assert_eq!(process["noNewPrivileges"], true);
        assert_eq!(config["root"]["readonly"], true);
        let image = json(|spec| spec.root = RootSpec::Image("/image".into()));
        assert_eq!(image["root"]["readonly"], false);
    }

    #[test]
    fn limits_are_those_of_the_spec() {
        let config = json(|spec| {
            spec.limits.pids = 20;
            spec.limits.open_files = 64;
            spec.limits.disk = 4096;
        });
        let check = |kind: &str, expect: u64| {
            let all = config["process"]["rlimits"].as_array().unwrap();
            let one = all.iter().find(|one| one["type"] == kind).unwrap();
            assert_eq!(
                (&one["soft"], &one["hard"]),
                (&expect.into(), &expect.into())
            );
        };
        check("RLIMIT_NPROC", 24);
        check("RLIMIT_NOFILE", 64);
        check("RLIMIT_FSIZE", 4096);
        check("RLIMIT_DATA", 1 << 30);
    }

    #[test]
    fn nothing_of_the_host_is_mounted_but_the_workspace_of_the_enclosure() {
        let config = json(|_| {});
        let mounts = config["mounts"].as_array().unwrap();
        let options = |target: &str| -> Vec<&str> {
            let mount = mounts.iter().find(|one| one["destination"] == target);
            let options = mount.unwrap()["options"].as_array().unwrap();
            options.iter().map(|one| one.as_str().unwrap()).collect()
        };
        assert!(options("/tmp").contains(&"size=536870912"));
        assert!(options("/tmp").contains(&"mode=1777"));
        assert!(options("/workspace").contains(&"rw"));
        let binds: Vec<_> = mounts.iter().filter(|one| one["type"] == "bind").collect();
        assert_eq!(binds.len(), 1);
        assert_eq!(binds[0]["source"], format!("{SANDBOX_ROOT}/workspace"));
        assert!(!config.to_string().contains("/somewhere"));
    }
}
