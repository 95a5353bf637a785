//! A digest of a folder's metadata: names, kinds, modes, sizes, times and the targets of links. Never opens
//! a file, never follows a link.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use crate::digest::Digest;

/// Digest, size and number of entries of a tree.
#[derive(Debug)]
pub(crate) struct TreeListing {
    pub(crate) digest: Digest,
    /// Of regular files, each rounded up to whole blocks. A hard link counts again.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// The block size of the file systems that are made here.
const BLOCK_BYTES: u64 = 4096;

/// Lists everything below a folder, sorted by name.
pub(crate) fn list(root: &Path) -> io::Result<TreeListing> {
    let mut hash = Sha256::new();
    let (mut bytes, mut entries) = (0, 0);
    walk(root, &mut |path, about| {
        let name = path.strip_prefix(root).unwrap_or(path).as_os_str();
        let is_file = about.file_type().is_file();
        // A folder's size depends on the file system.
        let size = if is_file { about.len() } else { 0 };
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update(about.mode().to_le_bytes());
        hash.update(size.to_le_bytes());
        hash.update(about.rdev().to_le_bytes());
        hash.update(about.mtime().to_le_bytes());
        hash.update(about.mtime_nsec().to_le_bytes());
        if about.is_symlink() {
            hash.update(fs::read_link(path)?.as_os_str().as_bytes());
        }
        hash.update([0]);
        bytes += size.next_multiple_of(BLOCK_BYTES);
        entries += 1;
        Ok(())
    })?;
    Ok(TreeListing {
        digest: Digest::from_hash(hash),
        bytes,
        entries,
    })
}

/// Calls `visit` for a folder and everything below it, parents first, sorted by name.
pub(crate) fn walk(
    root: &Path,
    visit: &mut dyn FnMut(&Path, &Metadata) -> io::Result<()>,
) -> io::Result<()> {
    // A stack: the next path is at the end.
    let mut waiting = vec![root.to_owned()];
    while let Some(path) = waiting.pop() {
        let about = fs::symlink_metadata(&path)?;
        visit(&path, &about)?;
        if about.is_dir() {
            let names: io::Result<Vec<_>> = fs::read_dir(&path)?.collect();
            let mut below: Vec<_> = names?.into_iter().map(|entry| entry.path()).collect();
            below.sort_by(|a, b| b.cmp(a));
            waiting.append(&mut below);
        }
    }
    Ok(())
}
