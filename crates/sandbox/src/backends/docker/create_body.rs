//! A container as a request of Docker's API. Pure.

use std::collections::HashMap;
use std::path::Path;

use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig,
    Mount as DockerMount, MountBindOptions, MountBindOptionsPropagationEnum, MountType,
    ResourcesUlimits,
};

use super::super::bundle::{Bundle, BundleMount};
use super::super::confined_guest::GUEST_PATH;
use super::super::container::cgroup_limits::{CPU_PERIOD_MICROS, pids, quota};
use super::super::container::{LINK_PATH, profile};
use super::super::root_entries::HOSTNAME;
use crate::limits::SandboxLimits;

/// Everything about one container.
#[derive(Debug, Clone, Copy)]
pub(super) struct DockerContainerSpec<'a> {
    pub(super) name: &'a str,
    /// The owner process on the host, so that leftovers can be found.
    pub(super) owner: &'a str,
    /// User and group on the host.
    pub(super) identity: (u32, u32),
    /// The image tag.
    pub(super) image: &'a str,
    pub(super) bundle: &'a Bundle,
    /// Whether the root is an image and therefore writable.
    pub(super) is_image: bool,
    pub(super) limits: &'a SandboxLimits,
}

impl DockerContainerSpec<'_> {
    pub(super) fn body(&self) -> ContainerCreateBody {
        let (uid, gid) = self.identity;
        let guest = [GUEST_PATH, "contained", LINK_PATH].map(str::to_owned);
        ContainerCreateBody {
            hostname: Some(HOSTNAME.into()),
            user: Some(format!("{uid}:{gid}")),
            attach_stdin: Some(false),
            attach_stdout: Some(false),
            attach_stderr: Some(false),
            tty: Some(false),
            entrypoint: Some(guest.into()),
            healthcheck: Some(HealthConfig {
                test: Some(vec!["NONE".into()]),
                ..HealthConfig::default()
            }),
            image: Some(self.image.into()),
            working_dir: Some("/".into()),
            network_disabled: Some(true),
            labels: Some(HashMap::from([
                ("hotcell.sandbox".into(), self.name.into()),
                ("hotcell.owner".into(), self.owner.into()),
            ])),
            stop_signal: Some("KILL".into()),
            host_config: Some(self.host()),
            ..ContainerCreateBody::default()
        }
    }

    fn host(&self) -> HostConfig {
        let limits = self.limits;
        let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let ulimit = |name: &str, value: u64| ResourcesUlimits {
            name: Some(name.into()),
            soft: Some(number(value)),
            hard: Some(number(value)),
        };
        HostConfig {
            memory: Some(number(limits.memory)),
            // Memory plus swap, so this means no swap.
            memory_swap: Some(number(limits.memory)),
            pids_limit: Some(i64::from(pids(limits))),
            cpu_period: Some(number(CPU_PERIOD_MICROS)),
            cpu_quota: Some(number(quota(limits))),
            ulimits: Some(vec![ulimit("core", 1), ulimit("nofile", limits.open_files)]),
            init: Some(false),
            log_config: Some(HostConfigLogConfig {
                typ: Some("none".into()),
                config: None,
            }),
            network_mode: Some("none".into()),
            auto_remove: Some(true),
            cap_drop: Some(vec!["ALL".into()]),
            cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
            ipc_mode: Some("private".into()),
            masked_paths: Some(MASKED_PATHS.iter().map(|path| (*path).to_owned()).collect()),
            privileged: Some(false),
            readonly_rootfs: Some(!self.is_image),
            security_opt: Some(vec![
                "no-new-privileges".into(),
                format!("seccomp={}", profile::json(true)),
            ]),
            // Disables the daemon's own user remapping.
            userns_mode: Some("host".into()),
            mounts: Some(self.bundle.mounts.iter().filter_map(bind_mount).collect()),
            tmpfs: Some(
                self.bundle
                    .mounts
                    .iter()
                    .filter_map(|one| self.tmpfs(one))
                    .collect(),
            ),
            shm_size: self.bundle.mounts.iter().find_map(shm_size),
            ..HostConfig::default()
        }
    }

    fn tmpfs(&self, mount: &BundleMount) -> Option<(String, String)> {
        let (uid, gid) = self.identity;
        match mount {
            BundleMount::Tmpfs {
                target,
                bytes,
                inodes,
                mode,
            } if target != Path::new(SHM_PATH) => Some((
                target.display().to_string(),
                format!(
                    "rw,exec,nosuid,nodev,size={bytes},nr_inodes={inodes},mode={mode:o},\
                     uid={uid},gid={gid}"
                ),
            )),
            _ => None,
        }
    }
}

/// The paths that Docker masks by default, and all of `/sys`, which sandboxes do not need.
const MASKED_PATHS: &[&str] = &[
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys",
];

/// Docker mounts this one itself.
const SHM_PATH: &str = "/dev/shm";

fn shm_size(mount: &BundleMount) -> Option<i64> {
    match mount {
        BundleMount::Tmpfs { target, bytes, .. } if target == Path::new(SHM_PATH) => {
            i64::try_from(*bytes).ok()
        }
        _ => None,
    }
}

fn bind_mount(mount: &BundleMount) -> Option<DockerMount> {
    let BundleMount::Bind {
        source,
        target,
        read_only,
    } = mount
    else {
        return None;
    };
    Some(DockerMount {
        typ: Some(MountType::BIND),
        source: Some(source.display().to_string()),
        target: Some(target.display().to_string()),
        read_only: Some(*read_only),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..DockerMount::default()
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn every_wall_is_asked_for() {
        let bundle = Bundle::sample();
        let limits = SandboxLimits {
            cpus: 1.5,
            ..SandboxLimits::default()
        };
        for is_image in [false, true] {
            let container = DockerContainerSpec {
                name: "hotcell-1-2-3-4",
                owner: "2-3",
                identity: (77, 78),
                image: "hotcell/root:x",
                bundle: &bundle,
                is_image,
                limits: &limits,
            };
            let body = serde_json::to_value(container.body()).unwrap();
            let check =
                |path: &str, expect: Value| assert_eq!(body.pointer(path), Some(&expect), "{path}");
            check("/User", json!("77:78"));
            check("/Entrypoint", json!([GUEST_PATH, "contained", LINK_PATH]));
            check("/Healthcheck/Test", json!(["NONE"]));
            check("/Labels/hotcell.owner", json!("2-3"));
            check("/NetworkDisabled", json!(true));
            check("/HostConfig/NetworkMode", json!("none"));
            check("/HostConfig/CapDrop", json!(["ALL"]));
            check("/HostConfig/SecurityOpt/0", json!("no-new-privileges"));
            check("/HostConfig/Privileged", json!(false));
            check("/HostConfig/MaskedPaths/10", json!("/sys"));
            check("/HostConfig/ReadonlyRootfs", json!(!is_image));
            check("/HostConfig/AutoRemove", json!(true));
            check("/HostConfig/Memory", json!(2_147_483_648_u64));
            check("/HostConfig/MemorySwap", json!(2_147_483_648_u64));
            check("/HostConfig/PidsLimit", json!(516));
            check("/HostConfig/CpuQuota", json!(150_000));
            check("/HostConfig/CgroupnsMode", json!("private"));
            check("/HostConfig/IpcMode", json!("private"));
            check("/HostConfig/LogConfig/Type", json!("none"));
            check("/HostConfig/ShmSize", json!(4096));
            check(
                "/HostConfig/Tmpfs",
                json!({ "/tmp": "rw,exec,nosuid,nodev,size=8192,nr_inodes=9,mode=1777,uid=77,gid=78" }),
            );
            check("/HostConfig/Mounts/0/ReadOnly", json!(true));
            assert_eq!(body.pointer("/HostConfig/Mounts/1"), None);
            let seccomp = body.pointer("/HostConfig/SecurityOpt/1").unwrap();
            assert!(seccomp.as_str().unwrap().starts_with("seccomp={"));
        }
    }
}
