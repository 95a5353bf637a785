//! A folder that this process fills: a machine's workspace before it is assigned to a sandbox, or
//! an unfinished snapshot. Its name tells a later process whether its owner is dead.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use walls::cgroups::group_name;

/// Removed when dropped, unless it was moved elsewhere.
#[derive(Debug)]
pub(super) struct OwnedFolder(PathBuf);

impl OwnedFolder {
    pub(super) fn make(parent: &Path) -> io::Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = group_name(number).ok_or(io::ErrorKind::NotFound)?;
        // A workspace is mounted by its real path.
        let path = parent.canonicalize()?.join(name);
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for OwnedFolder {
    fn drop(&mut self) {
        // Fails if the folder was moved. It is empty otherwise.
        let _ = fs::remove_dir(&self.0);
    }
}
