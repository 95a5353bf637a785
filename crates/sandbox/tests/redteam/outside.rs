//! What the host sees of a sandbox: processes, their memory, cgroups, disk usage.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::scene::contains;
use crate::under_test::traces::groups_beside;

fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Processes, other than this one, with a text in their arguments or environment.
pub(crate) fn processes_with(marker: &str) -> Vec<(u32, String)> {
    let carries = |pid: u32, file: &str| {
        fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|content| contains(&content, marker.as_bytes()))
    };
    let own = std::process::id();
    pids()
        .filter(|pid| *pid != own && (carries(*pid, "cmdline") || carries(*pid, "environ")))
        .map(|pid| {
            (
                pid,
                fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default(),
            )
        })
        .collect()
}

/// Processes of a pid namespace, except those that are hidden from this user, such as the guest.
pub(crate) fn processes_in(namespace: &str) -> Vec<u32> {
    let is_inside = |pid: &u32| {
        fs::read_link(format!("/proc/{pid}/ns/pid"))
            .is_ok_and(|link| link.to_string_lossy() == namespace)
    };
    pids().filter(is_inside).collect()
}

pub(crate) fn threads(pids: &[u32]) -> usize {
    let count = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).map_or(0, Iterator::count);
    pids.iter().map(count).sum()
}

/// Processors on which a process may run.
pub(crate) fn processors(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed:"))
        .unwrap_or_default();
    let ones = mask.chars().filter_map(|digit| digit.to_digit(16));
    ones.map(|digit| digit.count_ones() as usize).sum()
}

/// The folder of a process's cgroup for a controller, if it is not this process's own.
pub(crate) fn group(pid: u32, controller: &str) -> Option<PathBuf> {
    let groups = groups_beside(pid, std::process::id()).into_iter();
    let mut folders = groups.filter_map(|group| {
        let is_it = group.controllers.split(',').any(|name| name == controller)
            || group.controllers.is_empty()
                && group.folder.join(format!("{controller}.max")).exists();
        is_it.then_some(group.folder)
    });
    folders.next()
}

pub(crate) fn number(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Bytes and number of entries in a folder. This is the owner or root, so locked folders are
/// unlocked for the count.
pub(crate) fn size_of(folder: &Path) -> (u64, u64) {
    use std::os::unix::fs::PermissionsExt;
    let (mut bytes, mut names) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let _ = fs::set_permissions(&folder, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            bytes += metadata.blocks() * 512;
            names += 1;
        }
    }
    (bytes, names)
}

/// Setuid and setgid files below a folder.
pub(crate) fn setuid_files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let described = entries.filter_map(|entry| {
        let file = entry.metadata().ok()?;
        let path = entry.path();
        (file.is_file() && file.mode() & 0o6000 != 0).then(|| {
            format!(
                "{} {:o} of user {}",
                path.display(),
                file.mode(),
                file.uid()
            )
        })
    });
    described.collect()
}

/// Peak memory of this process, in bytes.
pub(crate) fn own_peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1024
}
