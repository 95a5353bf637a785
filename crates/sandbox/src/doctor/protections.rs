//! Compares what the kernel reports inside with what it reports on the host.
//!
//! Namespaces are compared by id if both share a kernel. A separate kernel is recognized by its
//! version and its boot id.

use std::fs;

use link::request::ObservedWalls;
use protocol::{Backend, Strength};
use serde::Serialize;

use crate::error::SandboxError;
use crate::handle::Sandbox;
use crate::spec::RootSpec;

/// One protection and whether it was verified.
#[derive(Debug, Serialize)]
pub struct Protection {
    pub name: &'static str,
    pub holds: bool,
    pub evidence: String,
}

/// Observations from inside the sandbox.
#[derive(Debug)]
pub(super) struct GuestView {
    pub(super) walls: ObservedWalls,
    kernel: KernelIdentity,
}

/// The identity of a kernel, as it reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct KernelIdentity {
    version: String,
    /// New with every boot; absent on some kernels.
    boot: Option<String>,
}

const VERSION_FILE: &str = "/proc/version";
const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";
/// Limit for both files.
const MAX_FILE_BYTES: u64 = 4096;

impl KernelIdentity {
    fn here() -> Self {
        let read = |file| fs::read_to_string(file).map(|text| text.trim().to_owned());
        Self {
            version: read(VERSION_FILE).unwrap_or_default(),
            boot: read(BOOT_ID_FILE).ok(),
        }
    }

    async fn inside(sandbox: &Sandbox) -> Result<Self, SandboxError> {
        let text = |content: Vec<u8>| String::from_utf8_lossy(&content).trim().to_owned();
        let (_, version) = sandbox
            .read_file(VERSION_FILE, 0, Some(MAX_FILE_BYTES))
            .await?;
        let boot = sandbox
            .read_file(BOOT_ID_FILE, 0, Some(MAX_FILE_BYTES))
            .await
            .ok();
        Ok(Self {
            version: text(version),
            boot: boot.map(|(_, boot)| text(boot)),
        })
    }

    fn differs_from(&self, other: &Self) -> bool {
        let is_another_boot = match (&self.boot, &other.boot) {
            (Some(one), Some(other)) => one != other,
            _ => false,
        };
        !self.version.is_empty() && (self.version != other.version || is_another_boot)
    }

    /// `Linux version RELEASE …`
    fn release(&self) -> &str {
        self.version.split(' ').nth(2).unwrap_or("unknown")
    }
}

impl GuestView {
    pub(super) async fn look(sandbox: &Sandbox) -> Result<Self, SandboxError> {
        Ok(Self {
            walls: sandbox.inspect().await?,
            kernel: KernelIdentity::inside(sandbox).await?,
        })
    }
}

const USER_NAMESPACE: &str = "user namespace";
const CGROUP_NAMESPACE: &str = "cgroup namespace";
const SECCOMP_FILTER: &str = "seccomp filter";

/// Whether a backend counts as failed without this protection. Protections that a container engine
/// or a separate kernel need not provide are shown but not required.
pub(super) fn is_required(backend: Backend, name: &str) -> bool {
    match (backend, name) {
        (_, "Landlock") => false,
        (Backend::Native, _) => true,
        (_, USER_NAMESPACE | CGROUP_NAMESPACE) => false,
        (_, SECCOMP_FILTER) => backend.strength() == Strength::Namespaces,
        _ => true,
    }
}

pub(super) fn protections(backend: Backend, root: &RootSpec, seen: &GuestView) -> Vec<Protection> {
    let walls = &seen.walls;
    let mut all = match backend.strength() {
        Strength::Kernel | Strength::Vm => {
            vec![separate_kernel(&seen.kernel, &KernelIdentity::here())]
        }
        Strength::None | Strength::Namespaces => namespace_protections(walls),
    };
    let mut add = |name, holds, evidence: String| {
        all.push(Protection {
            name,
            holds,
            evidence,
        })
    };
    add(
        "ordinary user",
        walls.uid != 0,
        format!("uid {}, gid {}", walls.uid, walls.gid),
    );
    let capabilities = format!("{:#x}", walls.capabilities);
    add("no capabilities", walls.capabilities == 0, capabilities);
    add(
        "no new privileges",
        walls.no_new_privileges,
        walls.no_new_privileges.to_string(),
    );
    add(
        SECCOMP_FILTER,
        walls.seccomp == 2,
        format!("mode {}", walls.seccomp),
    );
    let only_loopback = walls.interfaces.iter().all(|name| name == "lo");
    add("no network", only_loopback, walls.interfaces.join(", "));
    // An image is under an overlay that is discarded with the sandbox, so a writable root is
    // harmless.
    if *root == RootSpec::Host {
        add(
            "read-only root",
            walls.root_read_only,
            walls.root_read_only.to_string(),
        );
    }
    all
}

fn separate_kernel(inside: &KernelIdentity, here: &KernelIdentity) -> Protection {
    Protection {
        name: "kernel of its own",
        holds: inside.differs_from(here),
        evidence: format!("{}, the host's is {}", inside.release(), here.release()),
    }
}

fn namespace_protections(walls: &ObservedWalls) -> Vec<Protection> {
    let all = [
        ("user", USER_NAMESPACE),
        ("mnt", "mount namespace"),
        ("pid", "pid namespace"),
        ("net", "network namespace"),
        ("ipc", "ipc namespace"),
        ("uts", "host name namespace"),
        ("cgroup", CGROUP_NAMESPACE),
    ];
    all.map(|(kind, name)| {
        let inside = walls
            .namespaces
            .iter()
            .find(|(key, _)| key == kind)
            .map(|(_, id)| id.clone());
        let here = fs::read_link(format!("/proc/self/ns/{kind}")).ok();
        let here = here.map(|link| link.to_string_lossy().into_owned());
        Protection {
            name,
            holds: inside.is_some() && here.is_some() && inside != here,
            evidence: inside.unwrap_or_else(|| "unknown".into()),
        }
    })
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_of_its_own_is_told_by_version_or_boot() {
        let kernel = |version: &str, boot: Option<&str>| KernelIdentity {
            version: version.into(),
            boot: boot.map(Into::into),
        };
        let here = kernel("Linux version 6.1.0 (host) #1", Some("a"));
        let check = |inside: KernelIdentity, is_own: bool| {
            assert_eq!(separate_kernel(&inside, &here).holds, is_own, "{inside:?}");
        };
        check(here.clone(), false);
        check(kernel("Linux version 6.1.0 (host) #1", None), false);
        // The same kernel after a reboot.
        check(kernel("Linux version 6.1.0 (host) #1", Some("b")), true);
        check(kernel("Linux version 4.4.0 #1", None), true);
        check(kernel("", None), false);
        let said = separate_kernel(&kernel("Linux version 4.4.0 #1", None), &here).evidence;
        assert_eq!(said, "4.4.0, the host's is 6.1.0");
    }

    #[test]
    fn native_walls_need_all_but_landlock_and_others_what_makes_them_walls() {
        let check = |backend, name, expect| {
            assert_eq!(is_required(backend, name), expect, "{backend} {name}");
        };
        for backend in Backend::WALLED {
            check(backend, "Landlock", false);
            check(backend, "no network", true);
            check(backend, "no capabilities", true);
            check(backend, USER_NAMESPACE, backend == Backend::Native);
        }
        check(Backend::Podman, SECCOMP_FILTER, true);
        check(Backend::Gvisor, SECCOMP_FILTER, false);
        check(Backend::Microvm, "kernel of its own", true);
    }
}
