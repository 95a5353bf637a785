//! A container as arguments of `podman run`. Pure.

use std::path::Path;

use super::super::bundle::{Bundle, BundleMount};
use super::super::confined_guest::GUEST_PATH;
use super::super::container::cgroup_limits::{CPU_PERIOD_MICROS, pids, quota};
use super::super::container::{LINK_PATH, SandboxUids};
use super::super::root_entries::{HOSTNAME, UID};
use crate::limits::SandboxLimits;

/// Everything that defines one container.
#[derive(Debug, Clone, Copy)]
pub(super) struct PodmanContainerSpec<'a> {
    pub(super) name: &'a str,
    /// The owner process on the host, so that leftovers can be found.
    pub(super) owner: &'a str,
    pub(super) identity: PodmanIdentity,
    pub(super) bundle: &'a Bundle,
    /// Whether the root is an image and therefore writable.
    pub(super) is_image: bool,
    pub(super) seccomp: &'a Path,
    pub(super) limits: &'a SandboxLimits,
    /// Limit of processes per user, independent of the cgroup.
    pub(super) processes: u64,
}

/// The host user of the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodmanIdentity {
    /// Its own users.
    Mapped(SandboxUids),
    /// The user that starts it.
    Caller,
}

/// Seconds after the deadline until Podman ends the container, if the guest did not.
const DEADLINE_GRACE_SECS: u64 = 5;

impl PodmanContainerSpec<'_> {
    /// All arguments, from `run` to those of the guest.
    pub(super) fn arguments(&self) -> Vec<String> {
        let mut all: Vec<String> = [
            "run",
            "--detach",
            "--rm",
            "--network=none",
            "--ipc=private",
            "--uts=private",
            "--pid=private",
            "--cgroupns=private",
            "--cap-drop=all",
            "--security-opt=no-new-privileges",
            // Sandboxes do not need it.
            "--security-opt=mask=/sys",
            "--systemd=false",
            "--sdnotify=ignore",
            "--log-driver=none",
            "--no-healthcheck",
            "--no-hosts",
            "--passwd=false",
            "--unsetenv-all",
            "--stop-signal=KILL",
            "--workdir=/",
        ]
        .map(str::to_owned)
        .into();
        all.extend([
            format!("--name={}", self.name),
            format!("--hostname={HOSTNAME}"),
            format!("--label=hotcell.sandbox={}", self.name),
            format!("--label=hotcell.owner={}", self.owner),
            format!("--security-opt=seccomp={}", self.seccomp.display()),
            format!("--user={UID}:{UID}"),
        ]);
        self.add_identity(&mut all);
        self.limit(&mut all);
        for mount in &self.bundle.mounts {
            self.mount(mount, &mut all);
        }
        self.root(&mut all);
        all.extend([GUEST_PATH, "contained", LINK_PATH].map(str::to_owned));
        all
    }

    fn add_identity(&self, all: &mut Vec<String>) {
        match self.identity {
            PodmanIdentity::Mapped(SandboxUids { user, root }) => {
                for map in ["uidmap", "gidmap"] {
                    all.push(format!("--{map}=0:{root}:1"));
                    all.push(format!("--{map}={UID}:{user}:1"));
                }
            }
            PodmanIdentity::Caller => all.push(format!("--userns=keep-id:uid={UID},gid={UID}")),
        }
    }

    fn limit(&self, all: &mut Vec<String>) {
        let limits = self.limits;
        all.extend([
            format!("--memory={}b", limits.memory),
            // Memory plus swap, so this means no swap.
            format!("--memory-swap={}b", limits.memory),
            format!("--pids-limit={}", pids(limits)),
            format!("--cpu-period={CPU_PERIOD_MICROS}"),
            format!("--cpu-quota={}", quota(limits)),
            format!("--ulimit=nofile={0}:{0}", limits.open_files),
            // Podman's default is more than a root user with reduced rights may set.
            format!("--ulimit=nproc={0}:{0}", self.processes),
            "--ulimit=core=1:1".to_owned(),
        ]);
        if let Some(wall) = limits.wall {
            all.push(format!(
                "--timeout={}",
                wall.as_secs() + DEADLINE_GRACE_SECS
            ));
        }
    }

    fn mount(&self, mount: &BundleMount, all: &mut Vec<String>) {
        match mount {
            BundleMount::Bind {
                source,
                target,
                read_only,
            } => {
                let access = if *read_only { "ro" } else { "rw" };
                all.push(format!(
                    "--volume={}:{}:{access},nosuid,nodev,rbind,rprivate",
                    source.display(),
                    target.display()
                ));
            }
            // Podman mounts this one itself.
            BundleMount::Tmpfs { target, bytes, .. } if target == Path::new("/dev/shm") => {
                all.push(format!("--shm-size={bytes}b"));
            }
            BundleMount::Tmpfs {
                target,
                bytes,
                mode,
                ..
            } => all.push(format!(
                "--tmpfs={}:rw,nosuid,nodev,notmpcopyup,U,size={bytes},mode={mode:o}",
                target.display()
            )),
        }
    }

    fn root(&self, all: &mut Vec<String>) {
        // An image is under our own overlay already.
        if !self.is_image {
            all.extend(["--read-only", "--read-only-tmpfs=false"].map(str::to_owned));
        }
        all.extend(["--rootfs".into(), self.bundle.root.display().to_string()]);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn arguments(identity: PodmanIdentity, is_image: bool, limits: &SandboxLimits) -> Vec<String> {
        let bundle = Bundle::sample();
        let container = PodmanContainerSpec {
            name: "hotcell-1-2-3-4",
            owner: "2-3",
            identity,
            bundle: &bundle,
            is_image,
            seccomp: Path::new("/run/x/seccomp.json"),
            limits,
            processes: 4096,
        };
        container.arguments()
    }

    #[test]
    fn every_wall_is_asked_for() {
        let limits = SandboxLimits {
            wall: Some(Duration::from_secs(30)),
            cpus: 1.5,
            ..SandboxLimits::default()
        };
        let users = SandboxUids {
            user: 1_900_000_000,
            root: 1_900_000_001,
        };
        let check = |identity, is_image, expect: &[&str], never: &[&str]| {
            let all = arguments(identity, is_image, &limits);
            assert_eq!(all[0], "run");
            assert_eq!(all[all.len() - 3..], [GUEST_PATH, "contained", LINK_PATH]);
            let usual = [
                "--network=none",
                "--cap-drop=all",
                "--security-opt=no-new-privileges",
                "--security-opt=mask=/sys",
                "--security-opt=seccomp=/run/x/seccomp.json",
                "--user=1000:1000",
                "--memory=2147483648b",
                "--memory-swap=2147483648b",
                "--pids-limit=516",
                "--cpu-quota=150000",
                "--timeout=35",
                "--label=hotcell.owner=2-3",
                "--volume=/usr:/usr:ro,nosuid,nodev,rbind,rprivate",
                "--shm-size=4096b",
                "--tmpfs=/tmp:rw,nosuid,nodev,notmpcopyup,U,size=8192,mode=1777",
            ];
            for one in usual.iter().chain(expect) {
                assert!(all.iter().any(|found| found == one), "{one}: {all:#?}");
            }
            for one in never {
                assert!(
                    !all.iter().any(|found| found.starts_with(one)),
                    "{one}: {all:#?}"
                );
            }
        };
        let mapped = PodmanIdentity::Mapped(users);
        check(
            mapped,
            false,
            &[
                "--uidmap=0:1900000001:1",
                "--uidmap=1000:1900000000:1",
                "--gidmap=1000:1900000000:1",
                "--read-only",
                "/run/x/root",
            ],
            &["--userns", "--privileged", "--init"],
        );
        check(mapped, true, &["/run/x/root"], &["--read-only"]);
        check(
            PodmanIdentity::Caller,
            true,
            &["--userns=keep-id:uid=1000,gid=1000", "/run/x/root"],
            &["--uidmap", "--read-only"],
        );
    }
}
