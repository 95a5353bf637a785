//! Opens files below a folder: with `openat2` where it is available, otherwise step by step.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, open, openat, openat2};
use nix::sys::stat::{FileStat, Mode, fstat};

use super::{Kind, kind};

/// Flags of every open: follow no link, do not block on a FIFO, acquire no terminal, close on exec.
const SAFE_OPEN_FLAGS: OFlag = OFlag::O_CLOEXEC
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_NONBLOCK)
    .union(OFlag::O_NOCTTY);

pub(super) fn root(folder: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    Ok(open(folder, flags, Mode::empty())?)
}

/// Opens a folder below another one. The empty path reopens that one.
pub(super) fn folder(root: impl AsFd, path: &[u8]) -> io::Result<OwnedFd> {
    open_below(root.as_fd(), path, OFlag::O_RDONLY | OFlag::O_DIRECTORY)
}

/// Opens a regular file below a folder. Checks the opened file, not the name.
pub(super) fn file(root: impl AsFd, path: &[u8]) -> io::Result<(File, FileStat)> {
    let opened = open_below(root.as_fd(), path, OFlag::O_RDONLY)?;
    let stat = fstat(&opened)?;
    if kind(&stat) != Kind::File {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a file"));
    }
    Ok((File::from(opened), stat))
}

fn open_below(root: BorrowedFd<'_>, path: &[u8], flags: OFlag) -> io::Result<OwnedFd> {
    match open_with_openat2(root, path, flags) {
        // An old kernel, or a seccomp filter that does not know the call.
        Err(Errno::ENOSYS | Errno::EPERM) => Ok(open_step_by_step(root, path, flags)?),
        opened => Ok(opened?),
    }
}

pub(super) fn open_with_openat2(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlag,
) -> nix::Result<OwnedFd> {
    let resolve = ResolveFlag::RESOLVE_BENEATH
        | ResolveFlag::RESOLVE_NO_SYMLINKS
        | ResolveFlag::RESOLVE_NO_MAGICLINKS
        | ResolveFlag::RESOLVE_NO_XDEV;
    let how = OpenHow::new()
        .flags(flags | SAFE_OPEN_FLAGS)
        .resolve(resolve);
    let path = if path.is_empty() { b"." } else { path };
    openat2(root, path, how)
}

pub(super) fn open_step_by_step(
    root: BorrowedFd<'_>,
    path: &[u8],
    flags: OFlag,
) -> nix::Result<OwnedFd> {
    let step = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let mut held: Option<OwnedFd> = None;
    let mut rest = if path.is_empty() { b"." } else { path };
    while let Some(end) = rest.iter().position(|byte| *byte == b'/') {
        let from = held.as_ref().map_or(root, AsFd::as_fd);
        held = Some(openat(from, &rest[..end], step, Mode::empty())?);
        rest = &rest[end + 1..];
    }
    let from = held.as_ref().map_or(root, AsFd::as_fd);
    openat(from, rest, flags | SAFE_OPEN_FLAGS, Mode::empty())
}
