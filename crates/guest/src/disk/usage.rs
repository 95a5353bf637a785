//! Disk usage in bytes and inodes: of a file system from `statvfs`, of a folder by walking it.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use link::request::DiskGrowthLimit;
use nix::sys::statvfs::statvfs;

use super::verdict::ScanCompleteness;

/// The unit of `st_blocks`, in bytes.
const BLOCK_BYTES: u64 = 512;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct DiskUsage {
    pub(super) bytes: u64,
    pub(super) inodes: u64,
}

impl From<DiskGrowthLimit> for DiskUsage {
    fn from(limit: DiskGrowthLimit) -> Self {
        Self {
            bytes: limit.bytes,
            inodes: limit.inodes,
        }
    }
}

impl DiskUsage {
    pub(super) fn of_file(file: &fs::Metadata) -> Self {
        Self {
            bytes: file.blocks() * BLOCK_BYTES,
            inodes: 1,
        }
    }

    /// Saturates at zero.
    pub(super) fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            inodes: self.inodes.saturating_sub(less.inodes),
        }
    }

    pub(super) fn plus(self, more: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(more.bytes),
            inodes: self.inodes.saturating_add(more.inodes),
        }
    }

    pub(super) fn at_most(self, most: Self) -> Self {
        Self {
            bytes: self.bytes.min(most.bytes),
            inodes: self.inodes.min(most.inodes),
        }
    }

    pub(super) fn exceeds(self, limit: DiskGrowthLimit) -> bool {
        self.bytes > limit.bytes || self.inodes > limit.inodes
    }
}

/// The total usage of a folder's file system.
pub(super) fn file_system_usage(folder: &Path) -> Option<DiskUsage> {
    let state = statvfs(folder).ok()?;
    Some(DiskUsage {
        bytes: state.blocks().saturating_sub(state.blocks_free()) * state.fragment_size(),
        inodes: state.files().saturating_sub(state.files_free()),
    })
}

/// Counts the files of a folder, in steps.
pub(super) struct FolderScan {
    pub(super) usage: DiskUsage,
    pub(super) completeness: ScanCompleteness,
    folders: Vec<PathBuf>,
    open: Option<fs::ReadDir>,
    /// Inodes of counted files that have several hard links.
    counted: HashSet<u64>,
}

impl FolderScan {
    pub(super) fn new(root: &Path) -> Self {
        Self {
            usage: DiskUsage::default(),
            completeness: ScanCompleteness::Complete,
            folders: vec![root.to_owned()],
            open: None,
            counted: HashSet::new(),
        }
    }

    /// Counts at most `most` more files. Returns whether the scan is finished.
    pub(super) fn advance(&mut self, most: usize) -> bool {
        let mut left = most;
        loop {
            let Some(open) = &mut self.open else {
                match self.folders.pop() {
                    Some(folder) => self.enter(&folder),
                    None => return true,
                }
                continue;
            };
            if left == 0 {
                return false;
            }
            left -= 1;
            match open.next() {
                Some(Ok(entry)) => self.add(&entry),
                Some(Err(error)) => self.record_error(&error),
                None => self.open = None,
            }
        }
    }

    fn enter(&mut self, folder: &Path) {
        match fs::read_dir(folder) {
            Ok(open) => self.open = Some(open),
            Err(error) => self.record_error(&error),
        }
    }

    fn add(&mut self, entry: &fs::DirEntry) {
        let file = match entry.metadata() {
            Ok(file) => file,
            Err(error) => return self.record_error(&error),
        };
        if file.is_dir() {
            self.folders.push(entry.path());
        }
        // A file with several hard links counts once.
        if file.is_dir() || file.nlink() == 1 || self.counted.insert(file.ino()) {
            self.usage = self.usage.plus(DiskUsage::of_file(&file));
        }
    }

    fn record_error(&mut self, error: &io::Error) {
        let completeness = match error.kind() {
            // Removed since the folder was read.
            io::ErrorKind::NotFound => return,
            io::ErrorKind::OutOfMemory => ScanCompleteness::Interrupted,
            _ => ScanCompleteness::Opaque,
        };
        self.completeness = self.completeness.max(completeness);
    }
}
