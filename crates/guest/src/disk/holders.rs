//! Removed files of a folder that still occupy space because a process holds them: by a descriptor, a
//! mapping, as its executable or current folder, or as the name of a socket. Entry point: [`count_held_files`].

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::freeze::{is_zombie, processes, tasks};
use super::usage::DiskUsage;
use super::verdict::ScanCompleteness;

/// What the kernel appends to the name of a removed file.
const REMOVED_SUFFIX: &[u8] = b" (deleted)";

/// The prefix of a socket's name in `/proc/PID/fd`.
const SOCKET_PREFIX: &[u8] = b"socket:";

pub(super) struct HeldFiles {
    pub(super) usage: DiskUsage,
    pub(super) completeness: ScanCompleteness,
}

/// Counts the removed files that all processes hold. Complete only if every process was readable and no
/// descriptor is in flight on a socket.
pub(super) fn count_held_files(root: &Path, is_linux: bool) -> HeldFiles {
    let Ok(folder) = fs::metadata(root) else {
        return HeldFiles {
            usage: DiskUsage::default(),
            completeness: ScanCompleteness::Opaque,
        };
    };
    let sockets = is_linux.then(UnixSockets::read).flatten();
    let mut search = HolderSearch {
        root: root.as_os_str().as_bytes(),
        device: folder.dev(),
        sockets,
        found: HashMap::new(),
        mapped: HashSet::new(),
        completeness: ScanCompleteness::Complete,
    };
    for pid in processes() {
        let mut mappings_of = None;
        for task in tasks(pid) {
            if is_zombie(pid, task) {
                continue;
            }
            if let Err(error) = search.task(pid, task) {
                search.failed(pid, task, &error);
            }
            mappings_of.get_or_insert(task);
        }
        if let Some(task) = mappings_of {
            search.inspect_mappings(pid, task);
        }
    }
    search.finish()
}

struct HolderSearch<'a> {
    root: &'a [u8],
    device: u64,
    /// `None`: unknown, so any socket may carry descriptors.
    sockets: Option<UnixSockets>,
    /// Removed files by inode.
    found: HashMap<u64, DiskUsage>,
    /// Inodes of removed files that are mapped. The size of one is known only if it is also in `found`.
    mapped: HashSet<u64>,
    completeness: ScanCompleteness,
}

impl HolderSearch<'_> {
    /// Files that a thread holds. Threads do not always share their descriptors.
    fn task(&mut self, pid: i32, task: i32) -> io::Result<()> {
        let folder = PathBuf::from(format!("/proc/{pid}/task/{task}"));
        for link in ["exe", "cwd", "root"] {
            self.link(&folder.join(link));
        }
        for entry in fs::read_dir(folder.join("fd"))? {
            let path = entry?.path();
            let Some(number) = self.link(&path) else {
                continue;
            };
            let completeness = match &self.sockets {
                None => ScanCompleteness::Opaque,
                Some(sockets) if sockets.has(&number) => check_in_flight(&folder, &path),
                Some(_) => ScanCompleteness::Complete,
            };
            self.completeness = self.completeness.max(completeness);
        }
        Ok(())
    }

    /// Records the target of a `/proc` link if it is a removed file of the folder. Returns the inode number,
    /// in brackets, if the target is a socket.
    fn link(&mut self, path: &Path) -> Option<Vec<u8>> {
        let target = match fs::read_link(path) {
            Ok(target) => target.into_os_string(),
            // A path beyond `PATH_MAX` can only be built step by step with relative paths, in the folder.
            Err(error) if error.raw_os_error() == Some(libc::ENAMETOOLONG) => {
                self.record_file(path);
                return None;
            }
            Err(_) => return None,
        };
        let target = target.as_bytes();
        if let Some(number) = target.strip_prefix(SOCKET_PREFIX) {
            return Some(number.to_owned());
        }
        if target.starts_with(self.root) && target.ends_with(REMOVED_SUFFIX) {
            self.record_file(path);
        }
        None
    }

    fn record_file(&mut self, path: &Path) {
        match fs::metadata(path) {
            Ok(file) if file.dev() == self.device => {
                self.found.insert(file.ino(), DiskUsage::of_file(&file));
            }
            Ok(_) => {}
            Err(error) => self.record_error(&error),
        }
    }

    /// A mapping shows the inode of its file, but not its size.
    fn inspect_mappings(&mut self, pid: i32, task: i32) {
        match fs::read(format!("/proc/{pid}/task/{task}/maps")) {
            Ok(maps) => self.mapped.extend(removed_inodes(&maps, self.root)),
            Err(error) => self.failed(pid, task, &error),
        }
    }

    fn failed(&mut self, pid: i32, task: i32, error: &io::Error) {
        if !is_zombie(pid, task) {
            self.record_error(error);
        }
    }

    fn record_error(&mut self, error: &io::Error) {
        let completeness = match error.kind() {
            io::ErrorKind::NotFound => return,
            io::ErrorKind::OutOfMemory => ScanCompleteness::Interrupted,
            _ => ScanCompleteness::Opaque,
        };
        self.completeness = self.completeness.max(completeness);
    }

    fn finish(self) -> HeldFiles {
        let names = DiskUsage {
            bytes: 0,
            inodes: self.sockets.map_or(0, |all| all.named),
        };
        let is_all_found = self
            .mapped
            .iter()
            .all(|inode| self.found.contains_key(inode));
        HeldFiles {
            usage: self.found.into_values().fold(names, DiskUsage::plus),
            completeness: if is_all_found {
                self.completeness
            } else {
                self.completeness.max(ScanCompleteness::Opaque)
            },
        }
    }
}

/// Checks a socket for descriptors that were sent and not yet received, which a scan cannot see.
fn check_in_flight(task: &Path, descriptor: &Path) -> ScanCompleteness {
    let number = descriptor.file_name().unwrap_or_default();
    let info = fs::read_to_string(task.join("fdinfo").join(number)).unwrap_or_default();
    let mut lines = info.lines();
    match lines.find_map(|line| line.strip_prefix("scm_fds:")) {
        Some(count) if count.trim() == "0" => ScanCompleteness::Complete,
        Some(_) => ScanCompleteness::Interrupted,
        // Linux before 5.7 does not report this.
        None => ScanCompleteness::Opaque,
    }
}

/// The Unix sockets, on which descriptors can be sent.
struct UnixSockets {
    /// Inode numbers, each in brackets.
    numbers: HashSet<Vec<u8>>,
    /// How many have a name in a file system. Each occupies an inode, also after the name is removed.
    named: u64,
}

impl UnixSockets {
    fn read() -> Option<Self> {
        let list = fs::read("/proc/self/net/unix").ok()?;
        Some(Self::parse(&String::from_utf8_lossy(&list)))
    }

    fn parse(list: &str) -> Self {
        let mut all = Self {
            numbers: HashSet::new(),
            named: 0,
        };
        for line in list.lines().skip(1) {
            let mut fields = line.split_whitespace().skip(6);
            if let Some(number) = fields.next() {
                all.numbers.insert(format!("[{number}]").into_bytes());
            }
            // An abstract name begins with `@`.
            all.named += u64::from(fields.next().is_some_and(|name| !name.starts_with('@')));
        }
        all
    }

    fn has(&self, number: &[u8]) -> bool {
        self.numbers.contains(number)
    }
}

/// The inodes of removed files below `root` in the mappings of a process.
fn removed_inodes(maps: &[u8], root: &[u8]) -> Vec<u64> {
    let lines = maps.split(|byte| *byte == b'\n');
    let removed = lines.filter(|line| line.ends_with(REMOVED_SUFFIX));
    let below = removed.filter_map(|line| {
        let mut fields = line.splitn(6, |byte| *byte == b' ');
        let inode = fields.nth(4)?;
        let path = fields.next()?.trim_ascii_start();
        let inode = std::str::from_utf8(inode).ok()?.parse().ok()?;
        path.starts_with(root).then_some(inode)
    });
    below.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_of_removed_files_are_found() {
        let check = |maps: &str, expect: &[u64]| {
            assert_eq!(removed_inodes(maps.as_bytes(), b"/workspace"), expect);
        };
        check("", &[]);
        check("7f00-7f10 rw-s 00000000 00:0f 12   /workspace/file\n", &[]);
        check(
            "7f00-7f10 rw-s 00000000 00:0f 12   /workspace/file (deleted)\n",
            &[12],
        );
        check(
            "7f00-7f10 rw-p 00000000 00:01 12   /memfd:x (deleted)\n",
            &[],
        );
    }

    #[test]
    fn sockets_with_a_name_are_inodes() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                    0000: 00000002 00000000 00010000 0001 01 4123 /workspace/s\n\
                    0000: 00000002 00000000 00010000 0001 01 4124 @abstract\n\
                    0000: 00000003 00000000 00000000 0001 03 4125\n";
        let sockets = UnixSockets::parse(list);
        assert_eq!(sockets.named, 1);
        assert!(sockets.has(b"[4125]") && !sockets.has(b"[1]"));
    }
}
