//! Keeps the workdir from growing past its limit.
//!
//! No kernel mechanism limits one folder for an ordinary user, so the guest looks: cheaply and
//! often at how full the file system is, and only when that grew by more than the limit at the
//! folder itself, with files that were removed but are still open. Over the limit, everything
//! is killed.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use link::request::{DiskLimit, Limit};
use nix::sys::statvfs::statvfs;

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
        let used = guest.workers.run(move || used(&folder)).await;
        if used.exceeds(used_before, limit) {
            guest.processes.kill_all(Some(Limit::Disk));
            // What comes next may tidy up, but not grow it further.
            limit.bytes = limit
                .bytes
                .max(used.bytes.saturating_sub(used_before.bytes) + SLACK);
            limit.inodes = limit
                .inodes
                .max(used.inodes.saturating_sub(used_before.inodes) + 1024);
        } else {
            // Somebody else fills this file system: wait for as much again.
            let grown = used.bytes.saturating_sub(used_before.bytes);
            filled_before = Usage {
                bytes: filled.bytes.saturating_sub(grown),
                inodes: filled
                    .inodes
                    .saturating_sub(used.inodes.saturating_sub(used_before.inodes)),
            };
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

/// What the folder holds, and what processes hold of files that are no longer in any folder.
fn used(root: &Path) -> Usage {
    let mut usage = Usage::default();
    let mut walk = Walk::new(root);
    walk.count(&mut usage, usize::MAX);
    let seen = &mut walk.seen;
    let Ok(top) = fs::symlink_metadata(root) else {
        return usage;
    };
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        if !process.file_name().as_encoded_bytes()[0].is_ascii_digit() {
            continue;
        }
        for open in ["fd", "map_files"] {
            for entry in fs::read_dir(process.path().join(open))
                .into_iter()
                .flatten()
                .flatten()
            {
                let Ok(metadata) = fs::metadata(entry.path()) else {
                    continue;
                };
                if metadata.nlink() == 0 && metadata.dev() == top.dev() {
                    usage.add(&metadata, seen);
                }
            }
        }
    }
    usage
}

/// A walk through all that a folder holds, which can be interrupted.
struct Walk {
    folders: Vec<PathBuf>,
    open: Option<fs::ReadDir>,
    /// Files with several names that were counted.
    seen: HashSet<u64>,
}

impl Walk {
    fn new(root: &Path) -> Self {
        Self {
            folders: vec![root.to_owned()],
            open: None,
            seen: HashSet::new(),
        }
    }

    /// Counts at most so many more; says whether that was all.
    fn count(&mut self, usage: &mut Usage, most: usize) -> bool {
        let mut left = most;
        loop {
            let Some(open) = &mut self.open else {
                match self.folders.pop() {
                    Some(folder) => self.open = fs::read_dir(folder).ok(),
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
