//! Removes a folder that untrusted programs have filled: follows no links, ignores modes, and
//! handles any depth.
//!
//! A nested folder that is not empty is first moved to the top level and then emptied there. So
//! paths stay short and at most three folders are open, however deep the tree is. After a crash,
//! the next call removes what is left.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, renameat};
use nix::sys::stat::{FchmodatFlags, Mode, fchmod, fchmodat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::open;

/// Names that are read per pass.
const NAME_BATCH_SIZE: usize = 1024;

/// Removes a folder with its contents, if it exists. Blocks.
pub(crate) fn remove_tree(folder: &Path) -> io::Result<()> {
    let (Some(parent), Some(name)) = (folder.parent(), folder.file_name()) else {
        let why = "the root cannot be removed";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    };
    let parent = match open::root(parent) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        parent => parent?,
    };
    let name = CString::new(name.as_encoded_bytes())?;
    if try_remove(&parent, &name)? == RemoveResult::Gone {
        return Ok(());
    }
    let top = open_writable(&parent, &name)?;
    let mut moved = 0;
    for_each_name(&top, |name| {
        if try_remove(&top, name)? == RemoveResult::Gone {
            return Ok(());
        }
        let folder = open_writable(&top, name)?;
        for_each_name(&folder, |name| {
            if try_remove(&folder, name)? == RemoveResult::Gone {
                return Ok(());
            }
            // Moving a folder changes its `..`, which requires write permission on it.
            open_writable(&folder, name)?;
            move_to_top(&folder, name, &top, &mut moved)
        })?;
        Ok(unlinkat(&top, name, UnlinkatFlags::RemoveDir)?)
    })?;
    Ok(unlinkat(
        &parent,
        name.as_c_str(),
        UnlinkatFlags::RemoveDir,
    )?)
}

/// Calls `act`, which removes the name, for every name until the folder is empty.
fn for_each_name(folder: &OwnedFd, mut act: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<()> {
    loop {
        let mut reader = Dir::from_fd(open::folder(folder, b"")?)?;
        let mut names: Vec<CString> = Vec::new();
        for entry in reader.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
            if names.len() == NAME_BATCH_SIZE {
                break;
            }
        }
        if names.is_empty() {
            return Ok(());
        }
        for name in &names {
            act(name)?;
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum RemoveResult {
    Gone,
    /// A folder that is not empty.
    Full,
}

fn try_remove(folder: impl AsFd, name: &CStr) -> io::Result<RemoveResult> {
    match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(RemoveResult::Gone),
        // A folder: Linux returns EISDIR, POSIX specifies EPERM.
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(&folder, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(RemoveResult::Gone),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(RemoveResult::Full),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder whatever its mode is, and sets its mode to 0700.
fn open_writable(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let open = || openat(&parent, name, flags, Mode::empty());
    let opened = match open() {
        Err(Errno::EACCES) => {
            fchmodat(&parent, name, Mode::S_IRWXU, FchmodatFlags::NoFollowSymlink)?;
            open()?
        }
        opened => opened?,
    };
    fchmod(&opened, Mode::S_IRWXU)?;
    Ok(opened)
}

/// Moves a folder to the top level, under a free name.
fn move_to_top(folder: impl AsFd, name: &CStr, top: impl AsFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let free = CString::new(format!(".removed-{moved}")).expect("the name has no zero byte");
        match renameat(&folder, name, &top, free.as_c_str()) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            // The name is already taken.
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
