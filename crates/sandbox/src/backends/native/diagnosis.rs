//! Why walls could not be set up, and how to allow them. Never suggests running without walls.

use std::fs;
use std::path::Path;

use nix::errno::Errno;
use walls::plan::{SetupFailure, SetupStage};

use super::wall_plan::HostFacts;

/// The settings of this machine that affect user namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NamespaceSettings {
    pub(super) max_user_namespaces: Option<u64>,
    /// Debian's own setting.
    pub(super) unprivileged_clone: Option<u64>,
    /// Ubuntu's AppArmor restriction.
    pub(super) apparmor_restricts: Option<u64>,
    pub(super) in_container: bool,
    pub(super) filtered: bool,
}

impl NamespaceSettings {
    pub(super) fn read() -> Self {
        let number = |path: &str| fs::read_to_string(path).ok()?.trim().parse().ok();
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Self {
            max_user_namespaces: number("/proc/sys/user/max_user_namespaces"),
            unprivileged_clone: number("/proc/sys/kernel/unprivileged_userns_clone"),
            apparmor_restricts: number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
            in_container: ["/.dockerenv", "/run/.containerenv"]
                .iter()
                .any(|path| Path::new(path).exists()),
            filtered: status
                .lines()
                .any(|line| line.split_whitespace().eq(["Seccomp:", "2"])),
        }
    }
}

/// One line that names the setting that forbids the step, and how to change it.
pub(super) fn advise(
    failure: &SetupFailure,
    signs: &NamespaceSettings,
    facts: &HostFacts,
) -> Option<String> {
    let errno = Errno::from_raw(failure.errno);
    let forbidden = matches!(errno, Errno::EPERM | Errno::EACCES);
    if errno == Errno::ENOSPC && failure.stage == SetupStage::Namespaces
        || signs.max_user_namespaces == Some(0)
    {
        return Some(
            "user namespaces are used up or switched off: \
             `sysctl -w user.max_user_namespaces=15000` allows them"
                .into(),
        );
    }
    if failure.step.starts_with("map the owner") {
        return Some(
            "this file system cannot map owners and the workspace belongs to root: \
             use a workspace that belongs to an ordinary user, or one on ext4, xfs or btrfs"
                .into(),
        );
    }
    if errno == Errno::ENODEV && failure.step.starts_with("lay the overlay") {
        return Some("this kernel has no overlay file system: `modprobe overlay` loads it".into());
    }
    if !forbidden {
        return None;
    }
    if signs.unprivileged_clone == Some(0) && !facts.is_host_root {
        return Some(
            "the kernel forbids user namespaces to ordinary users: \
             `sysctl -w kernel.unprivileged_userns_clone=1` allows them"
                .into(),
        );
    }
    if signs.apparmor_restricts == Some(1) && !facts.is_host_root {
        return Some(
            "AppArmor restricts user namespaces: \
             `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0` allows them, \
             or give `hotcell` a profile with `userns,`"
                .into(),
        );
    }
    if signs.in_container || signs.filtered {
        return Some(
            "this container's own walls forbid new ones: start it with \
             `--security-opt seccomp=unconfined --security-opt apparmor=unconfined \
             --security-opt systempaths=unconfined`"
                .into(),
        );
    }
    match failure.stage {
        SetupStage::Namespaces | SetupStage::Identity | SetupStage::Mounts => Some(
            "a security module of this machine forbids it; its log (`dmesg`) says which".into(),
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use walls::cgroups::AvailableControllers;

    #[test]
    fn each_forbidding_setting_is_named() {
        let facts = |is_host_root| HostFacts {
            uid: 1000,
            gid: 1000,
            is_host_root,
            workspace_owner: (1000, 1000),
            image_owner: None,
            groups: AvailableControllers::default(),
            group_name: None,
            processors: vec![0],
            number: 0,
        };
        let check = |errno: Errno, stage, signs: NamespaceSettings, expect: Option<&str>| {
            let step = "make namespaces".to_owned();
            let failure = SetupFailure {
                step,
                stage,
                errno: errno as i32,
            };
            let advice = advise(&failure, &signs, &facts(false));
            match expect {
                Some(expect) => assert!(
                    advice.clone().is_some_and(|text| text.contains(expect)),
                    "{advice:?}"
                ),
                None => assert_eq!(advice, None),
            }
        };
        let none = NamespaceSettings::default;
        let namespaces = SetupStage::Namespaces;
        check(
            Errno::ENOSPC,
            namespaces,
            none(),
            Some("user.max_user_namespaces"),
        );
        let off = NamespaceSettings {
            max_user_namespaces: Some(0),
            ..none()
        };
        check(
            Errno::EPERM,
            namespaces,
            off,
            Some("user.max_user_namespaces"),
        );
        let debian = NamespaceSettings {
            unprivileged_clone: Some(0),
            ..none()
        };
        check(
            Errno::EPERM,
            namespaces,
            debian,
            Some("kernel.unprivileged_userns_clone=1"),
        );
        let ubuntu = NamespaceSettings {
            apparmor_restricts: Some(1),
            ..none()
        };
        check(
            Errno::EACCES,
            SetupStage::Mounts,
            ubuntu,
            Some("apparmor_restrict_unprivileged_userns=0"),
        );
        let docker = NamespaceSettings {
            in_container: true,
            ..none()
        };
        check(Errno::EPERM, namespaces, docker, Some("seccomp=unconfined"));
        check(Errno::EPERM, namespaces, none(), Some("security module"));
        check(Errno::ENOENT, SetupStage::Mounts, none(), None);
    }
}
