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
use std::time::Duration;

use link::request::{DiskLimit, Limit};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::signal::kill;
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use nix::sys::statvfs::statvfs;
use nix::unistd::Pid;

use crate::session::Guest;

const EVERY: Duration = Duration::from_millis(50);

/// Room for cleaning up after a kill.
const SLACK: u64 = 16 * 1024 * 1024;

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
    let mut killed = false;
    let mut tick = tokio::time::interval(EVERY);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        // Where nothing runs, nothing grows.
        guest.processes.any().await;
        tick.tick().await;
        let Some(filled) = filled(&root) else {
            continue;
        };
        if !filled.exceeds(filled_before, limit) {
            continue;
        }
        let folder = root.clone();
        let seen = guest.workers.run(move || Seen::look(&folder)).await;
        let hidden = filled
            .since(filled_before)
            .bytes
            .saturating_sub(seen.usage.since(used_before).bytes);
        let is_over = seen.usage.exceeds(used_before, limit)
            || !seen.is_all
            || (hidden > limit.bytes && seen.written > limit.bytes);
        if is_over {
            guest.processes.kill_all(Some(Limit::Disk));
            // What comes next may tidy up, but not grow it further: once.
            if !std::mem::replace(&mut killed, true) {
                let grown = seen.usage.since(used_before);
                limit.bytes = limit.bytes.max(grown.bytes + SLACK);
                limit.inodes = limit.inodes.max(grown.inodes + 1024);
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
    /// Bytes that the sandbox wrote to disks in its life.
    written: u64,
}

impl Seen {
    fn look(root: &Path) -> Self {
        let mut usage = Usage::default();
        let mut walk = Walk::new(root);
        walk.count(&mut usage, usize::MAX);
        Self {
            usage,
            is_all: walk.is_all,
            written: written(root),
        }
    }
}

/// By the processes that ended and those that live; without bound where nobody counts, or where
/// one does not let itself be asked.
fn written(root: &Path) -> u64 {
    let counts = statfs(root).is_ok_and(|state| state.filesystem_type() != TMPFS_MAGIC);
    let ended = getrusage(UsageWho::RUSAGE_CHILDREN);
    let mut all = match ended {
        Ok(ended) if counts => ended.block_writes() as u64 * 512,
        _ => return u64::MAX,
    };
    let exists = |pid| kill(Pid::from_raw(pid), None).is_ok();
    // By number: a process can hide from the list in `/proc`, but not from a signal.
    for pid in (2..=last_pid()).filter(|pid| exists(*pid)) {
        if Path::new(&format!("/proc/self/task/{pid}")).exists() {
            continue;
        }
        let count = fs::read_to_string(format!("/proc/{pid}/io"))
            .ok()
            .and_then(|text| {
                let count = text
                    .lines()
                    .find_map(|line| line.strip_prefix("write_bytes: "))?;
                count.parse().ok()
            });
        match count {
            Some(count) => all = all.saturating_add(count),
            None if exists(pid) => return u64::MAX,
            // It has ended meanwhile.
            None => {}
        }
    }
    all
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
}

impl Walk {
    fn new(root: &Path) -> Self {
        Self {
            folders: vec![root.to_owned()],
            open: None,
            seen: HashSet::new(),
            is_all: true,
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
                        Err(error) => self.is_all &= error.kind() == io::ErrorKind::NotFound,
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
