//! Keeps the workdir from growing past its limit.
//!
//! No kernel mechanism limits one folder for an ordinary user, so the guest looks: cheaply and
//! often at how full the file system is, and only when that grew by more than the limit at the
//! folder itself. What it cannot see there (folders that were locked, files that were removed and
//! are held open) is judged by how much the sandbox has written. Over the limit, everything is
//! killed.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use link::request::{DiskLimit, Limit};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::kill;
use nix::sys::statfs::{FUSE_SUPER_MAGIC, TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

use crate::held::{held, is_ending};
use crate::session::Guest;
use crate::spawn::Moment;

const EVERY: Duration = Duration::from_millis(50);

/// Somebody else may free as much as is filled here, both between two looks: one at the folder now and
/// then, if that is cheap.
const SELDOM: Duration = Duration::from_secs(5);
const MOST_OF_THE_TIME: u32 = 50;

/// Room for cleaning up after a kill.
const SLACK: Usage = Usage {
    bytes: 16 * 1024 * 1024,
    inodes: 1024,
};

/// Looks in a row that may be vague before they count all the same.
const VAGUE: u32 = 10;

#[derive(Debug, Clone, Copy, Default)]
struct Usage {
    bytes: u64,
    inodes: u64,
}

impl Usage {
    fn since(self, base: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(base.bytes),
            inodes: self.inodes.saturating_sub(base.inodes),
        }
    }

    fn with(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            inodes: self.inodes.saturating_add(more.inodes),
        }
    }

    fn exceeds(self, base: Self, limit: DiskLimit) -> bool {
        self.bytes.saturating_sub(base.bytes) > limit.bytes
            || self.inodes.saturating_sub(base.inodes) > limit.inodes
    }
}

impl Usage {
    /// Counts a file, once however many names it has.
    fn add(&mut self, file: &fs::Metadata, seen: &mut HashSet<u64>) {
        if file.is_dir() || file.nlink() == 1 || seen.insert(file.ino()) {
            self.bytes += file.blocks() * 512;
            self.inodes += 1;
        }
    }
}

/// Watches for as long as the guest lives.
pub(crate) async fn watch(guest: Rc<Guest>) {
    let Some(mut limit) = guest.settings.disk else {
        return;
    };
    let root = guest.resolve(None);
    let Some(mut filled_before) = filled(&root) else {
        return;
    };
    let used_before = used_at_start(&guest, &root).await;
    let (mut killed, mut vague) = (false, 0);
    // Since the last closer look, by whoever: it hides as much of what was filled.
    let mut freed = Usage::default();
    let mut filled_last = filled_before;
    let (mut looked, mut cost) = (Instant::now(), Duration::ZERO);
    loop {
        // Where nothing runs, nothing grows; what has just begun has not grown yet.
        guest.processes.any().await;
        tokio::time::sleep(EVERY).await;
        let Some(filled) = filled(&root) else {
            continue;
        };
        freed = freed.with(filled_last.since(filled));
        filled_last = filled;
        let is_fuller = filled.exceeds(filled_before, limit);
        let may_hide = filled.with(freed).exceeds(filled_before, limit);
        if !may_hide && looked.elapsed() < SELDOM.max(cost * MOST_OF_THE_TIME) {
            continue;
        }
        let began = Instant::now();
        let folder = root.clone();
        let is_linux = guest.settings.is_linux;
        let seen = guest
            .workers
            .run(move || Seen::look(&folder, is_linux))
            .await;
        (looked, cost) = (Instant::now(), began.elapsed());
        let is_clear = seen.usage.exceeds(used_before, limit);
        if is_clear || !seen.is_vague {
            vague = 0;
        } else if vague < VAGUE {
            vague += 1;
            continue;
        }
        freed = Usage::default();
        let hidden = filled
            .since(filled_before)
            .bytes
            .saturating_sub(seen.usage.since(used_before).bytes);
        let is_hiding = match seen.hidden {
            Hidden::Written(written) => is_fuller && hidden > limit.bytes && written > limit.bytes,
            Hidden::Held(held) => seen.usage.with(held).exceeds(used_before, limit),
            Hidden::Unknown => is_fuller && hidden > limit.bytes,
        };
        if is_clear || (is_fuller && !seen.is_all) || is_hiding {
            guest.processes.kill_all(Some(Limit::Disk));
            // What comes next may tidy up, but not grow it further: once.
            if !std::mem::replace(&mut killed, true) {
                let grown = seen.usage.since(used_before);
                limit.bytes = limit.bytes.max(grown.bytes + SLACK.bytes);
                limit.inodes = limit.inodes.max(grown.inodes + SLACK.inodes);
                // Nor what cannot be seen.
                filled_before = filled.since(Usage {
                    bytes: limit.bytes.saturating_sub(SLACK.bytes),
                    inodes: limit.inodes.saturating_sub(SLACK.inodes),
                });
            }
        } else {
            // Somebody else fills this file system: wait for as much again.
            filled_before = filled.since(seen.usage.since(used_before));
        }
    }
}

/// A few files are counted on the spot; many are a worker's work.
async fn used_at_start(guest: &Guest, root: &Path) -> Usage {
    const FEW: usize = 64;
    let mut walk = Walk::new(root);
    let mut usage = Usage::default();
    match walk.count(&mut usage, FEW) {
        true => usage,
        false => {
            guest
                .workers
                .run(move || {
                    walk.count(&mut usage, usize::MAX);
                    usage
                })
                .await
        }
    }
}

/// How full the file system is.
fn filled(root: &Path) -> Option<Usage> {
    let state = statvfs(root).ok()?;
    Some(Usage {
        bytes: (state.blocks() - state.blocks_free()) * state.fragment_size(),
        inodes: state.files().saturating_sub(state.files_free()),
    })
}

/// What a closer look shows.
struct Seen {
    usage: Usage,
    /// Whether all of the folder could be looked at.
    is_all: bool,
    /// Whether the next look may well show more: there was no memory for this one, or somebody was
    /// just being started, or is ending and not buried, whom the kernel lets nobody ask.
    is_vague: bool,
    hidden: Hidden,
}

/// What is known of that which cannot be looked at.
enum Hidden {
    /// Bytes that the sandbox wrote to disks in its life: no more than these.
    Written(u64),
    /// In files that were removed and are held open: these.
    Held(Usage),
    Unknown,
}

impl Seen {
    fn look(root: &Path, is_linux: bool) -> Self {
        let began = Moment::now();
        let mut usage = Usage::default();
        let mut walk = Walk::new(root);
        walk.count(&mut usage, usize::MAX);
        let mut is_vague = walk.is_short;
        let hidden = match processes(is_linux) {
            Ok(processes) if is_linux && is_counted(root) => {
                Hidden::Written(written(&processes, &mut is_vague))
            }
            Ok(processes) => match held(root, &processes, is_linux) {
                Some(bytes) => Hidden::Held(Usage { bytes, inodes: 0 }),
                None => Hidden::Unknown,
            },
            Err(_) => Hidden::Unknown,
        };
        Self {
            usage,
            is_all: walk.is_all,
            is_vague: is_vague || !began.is_quiet_since(),
            hidden,
        }
    }
}

/// Whether the kernel counts what processes write to this file system.
fn is_counted(root: &Path) -> bool {
    let uncounted = [TMPFS_MAGIC, FUSE_SUPER_MAGIC];
    statfs(root).is_ok_and(|state| !uncounted.contains(&state.filesystem_type()))
}

/// By the processes that ended and those that live; without bound where one does not let itself be
/// asked.
fn written(processes: &[i32], is_vague: &mut bool) -> u64 {
    let mut all = match getrusage(UsageWho::RUSAGE_CHILDREN) {
        Ok(ended) => ended.block_writes() as u64 * 512,
        Err(_) => return u64::MAX,
    };
    for pid in processes.iter().copied() {
        let count = fs::read_to_string(format!("/proc/{pid}/io"))
            .inspect_err(|error| *is_vague |= error.kind() == io::ErrorKind::OutOfMemory)
            .ok()
            .and_then(|text| {
                let count = text
                    .lines()
                    .find_map(|line| line.strip_prefix("write_bytes: "))?;
                count.parse().ok()
            });
        match count {
            Some(count) => all = all.saturating_add(count),
            None if exists(pid) => {
                *is_vague |= is_ending(pid);
                return u64::MAX;
            }
            // It has ended meanwhile.
            None => {}
        }
    }
    all
}

/// All processes but this one.
fn processes(is_linux: bool) -> io::Result<Vec<i32>> {
    if is_linux {
        // By number: a process can hide from the list in `/proc`, but not from a signal.
        let is_own = |pid: &i32| Path::new(&format!("/proc/self/task/{pid}")).exists();
        let all = (2..=last_pid()).filter(|pid| exists(*pid) && !is_own(pid));
        return Ok(all.collect());
    }
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let own = std::process::id() as i32;
    let all = fs::read_dir("/proc")?.flatten().filter_map(number);
    Ok(all.filter(|pid| *pid != own).collect())
}

fn exists(pid: i32) -> bool {
    kill(Pid::from_raw(pid), None).is_ok()
}

/// The highest number that a process here can have had so far.
fn last_pid() -> i32 {
    static HIGHEST: AtomicI32 = AtomicI32::new(0);
    let now = fs::read_to_string("/proc/loadavg").ok();
    let now = now.and_then(|text| text.split_whitespace().last()?.parse().ok());
    let now = now.unwrap_or(i32::from(i16::MAX));
    HIGHEST.fetch_max(now, Ordering::Relaxed).max(now)
}

/// A walk through all that a folder holds, which can be interrupted.
struct Walk {
    folders: Vec<PathBuf>,
    open: Option<fs::ReadDir>,
    /// Files with several names that were counted.
    seen: HashSet<u64>,
    /// Whether every folder could be opened so far.
    is_all: bool,
    /// Whether there was no memory to open one.
    is_short: bool,
}

impl Walk {
    fn new(root: &Path) -> Self {
        Self {
            folders: vec![root.to_owned()],
            open: None,
            seen: HashSet::new(),
            is_all: true,
            is_short: false,
        }
    }

    /// Counts at most so many more; says whether that was all.
    fn count(&mut self, usage: &mut Usage, most: usize) -> bool {
        let mut left = most;
        loop {
            let Some(open) = &mut self.open else {
                match self.folders.pop() {
                    Some(folder) => match fs::read_dir(folder) {
                        Ok(open) => self.open = Some(open),
                        Err(error) => {
                            self.is_all &= error.kind() == io::ErrorKind::NotFound;
                            self.is_short |= error.kind() == io::ErrorKind::OutOfMemory;
                        }
                    },
                    None => return true,
                }
                continue;
            };
            if left == 0 {
                return false;
            }
            left -= 1;
            let Some(entry) = open.next() else {
                self.open = None;
                continue;
            };
            let Ok(entry) = entry else {
                continue;
            };
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                self.folders.push(entry.path());
            }
            usage.add(&metadata, &mut self.seen);
        }
    }
}
