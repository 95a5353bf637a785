//! A folder that this process makes something in: what is a machine's workspace before it is anybody's,
//! and a snapshot that is not whole yet. Its name tells a later process when nobody has it any more.
//! Entry type: [`Folder`].

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use walls::cgroups::group_name;

/// Removed when dropped, unless it has become somebody's.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
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

impl Drop for Folder {
    fn drop(&mut self) {
        // Gone once it is somebody's. Nobody has put anything into it before.
        let _ = fs::remove_dir(&self.0);
    }
}
