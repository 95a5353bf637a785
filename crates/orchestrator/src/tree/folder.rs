//! An open folder: its names and their current metadata.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;

use nix::dir::Dir;
use nix::fcntl::{AtFlags, readlinkat};
use nix::sys::stat::{FileStat, fstatat};

use super::open;

#[derive(Debug)]
pub(super) struct TreeFolder(Dir);

impl TreeFolder {
    pub(super) fn open(root: impl AsFd, path: &[u8]) -> io::Result<Self> {
        Ok(Self(Dir::from_fd(open::folder(root, path)?)?))
    }

    /// At most this many names, sorted, and whether there are more.
    pub(super) fn names(&self, most: usize) -> io::Result<(Vec<CString>, bool)> {
        // A separate descriptor, to read from the start.
        let mut reader = Dir::from_fd(open::folder(&self.0, b"")?)?;
        let mut names = Vec::new();
        let mut has_more = false;
        for entry in reader.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if names.len() == most {
                has_more = true;
                break;
            }
            names.push(name.to_owned());
        }
        names.sort_unstable();
        Ok((names, has_more))
    }

    pub(super) fn stat(&self, name: &CStr) -> io::Result<FileStat> {
        Ok(fstatat(&self.0, name, AtFlags::AT_SYMLINK_NOFOLLOW)?)
    }

    pub(super) fn target(&self, name: &CStr) -> io::Result<Vec<u8>> {
        Ok(readlinkat(&self.0, name)?.into_vec())
    }

    pub(super) fn open_file(&self, name: &CStr) -> io::Result<(File, FileStat)> {
        open::file(&self.0, name.to_bytes())
    }
}

impl AsFd for TreeFolder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
