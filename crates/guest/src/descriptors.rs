//! This process's open files as paths, which calls on names can take: `/proc/self/fd`, or where that
//! is to be covered, a folder held since before. Opens no file again. Entry points: [`hold`],
//! [`place`].

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use nix::fcntl::AT_FDCWD;

const FOLDER: &str = "/proc/self/fd";

static HELD: OnceLock<File> = OnceLock::new();

/// Keeps a way to the folder, which then leads there whatever is mounted over it.
pub(crate) fn hold() -> io::Result<()> {
    let folder = File::open(FOLDER)?;
    HELD.get_or_init(|| folder);
    Ok(())
}

/// A folder and the path from there that follows to the file.
pub(crate) fn place(file: &File) -> (BorrowedFd<'static>, PathBuf) {
    let name = file.as_raw_fd().to_string();
    match HELD.get() {
        Some(folder) => (folder.as_fd(), name.into()),
        None => (AT_FDCWD, Path::new(FOLDER).join(name)),
    }
}
