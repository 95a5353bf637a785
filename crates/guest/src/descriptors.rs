//! Paths to this process's open files in `/proc/self/fd`, for system calls that take a path. Where that
//! folder will be masked, a descriptor of it is opened before. Reopens no file. Entry points: [`open_fd_dir`],
//! [`fd_path`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::AT_FDCWD;

const FD_DIR: &str = "/proc/self/fd";

static OPEN_FD_DIR: OnceLock<File> = OnceLock::new();

/// Opens the folder now. The descriptor stays valid when another mount covers the folder.
pub(crate) fn open_fd_dir() -> io::Result<()> {
    let folder = File::open(FD_DIR)?;
    OPEN_FD_DIR.get_or_init(|| folder);
    Ok(())
}

/// A folder descriptor and a path relative to it. The path is a symlink to the open file.
pub(crate) fn fd_path(file: &File) -> (BorrowedFd<'static>, PathBuf) {
    let name = file.as_raw_fd().to_string();
    match OPEN_FD_DIR.get() {
        Some(folder) => (folder.as_fd(), name.into()),
        None => (AT_FDCWD, Path::new(FD_DIR).join(name)),
    }
}
