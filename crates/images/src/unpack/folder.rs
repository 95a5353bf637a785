//! Open folders of a tree, and operations on names in them. Never follows a link, never takes a path.
//!
//! Entry type: [`OpenFolder`].

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::error::UnpackError;

/// An open folder of the tree.
#[derive(Debug)]
pub(super) struct OpenFolder {
    pub(super) descriptor: OwnedFd,
    pub(super) inode: u64,
}

impl OpenFolder {
    pub(super) fn new(descriptor: OwnedFd) -> Result<Self, UnpackError> {
        let inode = fstat(&descriptor)?.st_ino;
        Ok(Self { descriptor, inode })
    }
}

/// Removes a name and everything below it, except for `keep`. Returns whether anything was kept.
/// Never follows a link. The recursion is limited by [`super::entry_path::MAX_FOLDER_DEPTH`], which limits all trees.
pub(super) fn remove(
    parent: &OpenFolder,
    name: &OsStr,
    keep: &HashSet<(u64, OsString)>,
) -> Result<bool, UnpackError> {
    let Some(about) = look(parent, name)? else {
        return Ok(false);
    };
    let is_kept = keep.contains(&(parent.inode, name.to_owned()));
    if !is_folder(&about) {
        if !is_kept {
            unlinkat(&parent.descriptor, name, UnlinkatFlags::NoRemoveDir)?;
        }
        return Ok(is_kept);
    }
    let folder = OpenFolder::new(open_folder(parent, name)?)?;
    let mut has_kept = is_kept;
    for below in names(&folder)? {
        has_kept |= remove(&folder, &below, keep)?;
    }
    if !has_kept {
        unlinkat(&parent.descriptor, name, UnlinkatFlags::RemoveDir)?;
    }
    Ok(has_kept)
}

pub(super) fn names(folder: &OpenFolder) -> Result<Vec<OsString>, UnpackError> {
    // Opened again: a duplicated descriptor would share the read position.
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut dir = Dir::openat(&folder.descriptor, ".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in dir.iter() {
        let name = entry?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

pub(super) fn look(parent: &OpenFolder, name: &OsStr) -> Result<Option<FileStat>, UnpackError> {
    match fstatat(&parent.descriptor, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(about) => Ok(Some(about)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(super) fn is_folder(about: &FileStat) -> bool {
    SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT == SFlag::S_IFDIR
}

pub(super) fn open_folder(parent: &OpenFolder, name: &OsStr) -> Result<OwnedFd, UnpackError> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(&parent.descriptor, name, flags, Mode::empty())?)
}

pub(super) fn real_path(descriptor: &OwnedFd) -> Result<PathBuf, UnpackError> {
    std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).map_err(|error| {
        match error.raw_os_error() {
            Some(code) if code == Errno::ENAMETOOLONG as i32 => UnpackError::Name("is too deep"),
            _ => error.into(),
        }
    })
}
