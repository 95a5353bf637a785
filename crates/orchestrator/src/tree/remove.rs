//! Removes a folder that untrusted programs have filled: follows no link, opens what was locked,
//! and takes any depth.
//!
//! A folder that is not empty is first moved up to the top, then emptied there. So no path grows
//! and no more than three folders are open, however deep the tree is. What a crash leaves is
//! removed by the next call.

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

/// Names that are read at once.
const BATCH: usize = 1024;

/// Removes a folder and all that is in it; nothing, if there is none. Blocks.
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
    if take_away(&parent, &name)? == Outcome::Gone {
        return Ok(());
    }
    let top = unlock(&parent, &name)?;
    let mut moved = 0;
    each_name(&top, |name| {
        if take_away(&top, name)? == Outcome::Gone {
            return Ok(());
        }
        let folder = unlock(&top, name)?;
        each_name(&folder, |name| {
            if take_away(&folder, name)? == Outcome::Gone {
                return Ok(());
            }
            // To move a folder is to write its `..`.
            unlock(&folder, name)?;
            lift(&folder, name, &top, &mut moved)
        })?;
        Ok(unlinkat(&top, name, UnlinkatFlags::RemoveDir)?)
    })?;
    Ok(unlinkat(
        &parent,
        name.as_c_str(),
        UnlinkatFlags::RemoveDir,
    )?)
}

/// Does something with every name of a folder, until there is none left.
fn each_name(folder: &OwnedFd, mut act: impl FnMut(&CStr) -> io::Result<()>) -> io::Result<()> {
    loop {
        let mut reader = Dir::from_fd(open::folder(folder, b"")?)?;
        let mut names: Vec<CString> = Vec::new();
        for entry in reader.iter() {
            let entry = entry?;
            let name = entry.file_name();
            if !matches!(name.to_bytes(), b"." | b"..") {
                names.push(name.to_owned());
            }
            if names.len() == BATCH {
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
enum Outcome {
    Gone,
    /// A folder with something in it.
    Full,
}

fn take_away(folder: impl AsFd, name: &CStr) -> io::Result<Outcome> {
    match unlinkat(&folder, name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(Outcome::Gone),
        // A folder, as one system or the other says it.
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    match unlinkat(&folder, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(Outcome::Gone),
        Err(Errno::ENOTEMPTY | Errno::EEXIST) => Ok(Outcome::Full),
        Err(error) => Err(error.into()),
    }
}

/// Opens a folder whatever its mode, and lets its owner change it.
fn unlock(parent: impl AsFd, name: &CStr) -> io::Result<OwnedFd> {
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

/// Moves a folder to the top, under a name that is free.
fn lift(folder: impl AsFd, name: &CStr, top: impl AsFd, moved: &mut u64) -> io::Result<()> {
    loop {
        *moved += 1;
        let free = CString::new(format!(".removed-{moved}")).expect("it has no zero byte");
        match renameat(&folder, name, &top, free.as_c_str()) {
            Ok(()) | Err(Errno::ENOENT) => return Ok(()),
            // Taken by a name that was there before.
            Err(Errno::ENOTEMPTY | Errno::EEXIST | Errno::ENOTDIR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
