//! Files that were removed and are held open, found by looking at every process: for kernels and file
//! systems that do not count what processes write, as gVisor's and those of machines. Entry point:
//! [`held`].

use std::collections::HashSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sys::signal::kill;
use nix::unistd::Pid;

/// What the kernel puts behind the name of a file that has none any more.
const REMOVED: &[u8] = b" (deleted)";

/// How it calls a socket.
const SOCKET: &[u8] = b"socket:";

/// Bytes in files of a folder that only one of these processes still has; `None` where one does not let itself
/// be asked, has such a file in its memory, where its size cannot be seen, or a socket on which one
/// can be on its way.
pub(crate) fn held(root: &Path, processes: &[i32], is_linux: bool) -> Option<u64> {
    let device = fs::metadata(root).ok()?.dev();
    let carriers = carriers(is_linux);
    let mut seen = HashSet::new();
    let mut bytes = 0;
    for pid in processes {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let Ok(open) = fs::read_dir(process.join("fd")) else {
            match kill(Pid::from_raw(*pid), None).is_ok() && !is_zombie(*pid) {
                true => return None,
                false => continue,
            }
        };
        for entry in open.flatten() {
            let Ok(target) = fs::read_link(entry.path()) else {
                continue;
            };
            let target = target.as_os_str().as_bytes();
            if let Some(number) = target.strip_prefix(SOCKET) {
                match carriers.as_ref().is_some_and(|all| !all.contains(number)) {
                    true => continue,
                    false => return None,
                }
            }
            if target.ends_with(REMOVED)
                && let Ok(file) = fs::metadata(entry.path())
                && file.dev() == device
                && seen.insert(file.ino())
            {
                bytes += file.blocks() * 512;
            }
        }
        let maps = fs::read(process.join("maps")).unwrap_or_default();
        if maps_removed(&maps, root) {
            return None;
        }
    }
    Some(bytes)
}

/// Numbers of the sockets that descriptors can be sent on, each in brackets; `None` where that
/// cannot be known.
fn carriers(is_linux: bool) -> Option<HashSet<Vec<u8>>> {
    let list = fs::read_to_string("/proc/net/unix").ok();
    let list = list.filter(|_| is_linux)?;
    let number = |line: &str| Some(format!("[{}]", line.split_whitespace().nth(6)?).into_bytes());
    Some(list.lines().skip(1).filter_map(number).collect())
}

/// Whether it has ended and nobody has asked how: it holds nothing, and cannot be looked at.
fn is_zombie(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // After its name, which may hold anything.
    stat.rsplit_once(')')
        .is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
}

/// Whether it is on its way out: the kernel shows nobody what one without memory of its own did or has.
pub(crate) fn is_ending(pid: i32) -> bool {
    let pages = fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    is_zombie(pid) || pages.starts_with("0 ")
}

fn maps_removed(maps: &[u8], root: &Path) -> bool {
    let root = root.as_os_str().as_bytes();
    maps.split(|byte| *byte == b'\n').any(|line| {
        let at = line.windows(root.len()).position(|part| part == root);
        at.is_some() && line.ends_with(REMOVED)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_in_memory_is_seen() {
        let check = |maps: &str, expect| {
            assert_eq!(
                maps_removed(maps.as_bytes(), Path::new("/workspace")),
                expect
            );
        };
        check("", false);
        check("7f00-7f10 rw-s 0 00:0f 12 /workspace/file\n", false);
        check(
            "7f00-7f10 rw-s 0 00:0f 12 /workspace/file (deleted)\n",
            true,
        );
        check("7f00-7f10 rw-p 0 00:01 12 /memfd:x (deleted)\n", false);
    }
}
