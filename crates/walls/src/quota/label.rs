//! Labels every file of a folder with a project id. Walks by descriptor and follows no symlink, because a
//! sandbox may have created the tree. Entry point: [`label_tree`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::PROJECT_IDS;
use super::calls::{label_of, set_label};

/// Bounds the time that labelling takes before the first command.
const MAX_FILES: usize = 50_000;

/// Bounds the open descriptors: each level keeps one.
const MAX_DEPTH: usize = 200;

/// The project of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ProjectLabel {
    /// 0: no project.
    pub(super) id: u32,
    /// Whether new files in a folder get the same label.
    pub(super) is_inherited: bool,
}

impl ProjectLabel {
    pub(super) fn inherited(id: u32) -> Self {
        Self {
            id,
            is_inherited: true,
        }
    }
}

#[derive(Debug)]
pub(super) enum LabelError {
    TooManyFiles(usize),
    /// A file belongs to a project that is not a sandbox's: writes to it count there.
    OtherProject(u32),
    Io(io::Error),
}

impl From<io::Error> for LabelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Labels a folder and everything in it.
pub(super) fn label_tree(folder: &File, label: ProjectLabel) -> Result<(), LabelError> {
    let device = folder.metadata()?.dev();
    relabel(folder, label)?;
    let mut files = 0;
    let mut open = vec![(folder.try_clone()?, read_entries(folder)?)];
    while let Some((folder, entries)) = open.last_mut() {
        let Some(entry) = entries.next() else {
            open.pop();
            continue;
        };
        let entry = entry?;
        files += 1;
        if files > MAX_FILES {
            return Err(LabelError::TooManyFiles(MAX_FILES));
        }
        let kind = entry.file_type()?;
        // Other kinds have no content, and opening them can have side effects.
        if !kind.is_dir() && !kind.is_file() {
            continue;
        }
        let Some(file) = open_entry(folder, &entry)? else {
            continue;
        };
        let found = file.metadata()?;
        if found.dev() != device {
            continue;
        }
        let label = ProjectLabel {
            is_inherited: label.is_inherited && found.is_dir(),
            ..label
        };
        if found.is_dir() {
            relabel(&file, label)?;
            if open.len() == MAX_DEPTH {
                return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
            }
            let inside = self::read_entries(&file)?;
            open.push((file, inside));
        } else if found.is_file() {
            relabel(&file, label)?;
        }
    }
    Ok(())
}

fn relabel(file: &File, label: ProjectLabel) -> Result<(), LabelError> {
    let before = label_of(file)?;
    if before == label {
        return Ok(());
    }
    if before.id != 0 && !PROJECT_IDS.contains(&before.id) {
        return match label.id {
            // It was never changed, so there is nothing to undo.
            0 => Ok(()),
            _ => Err(LabelError::OtherProject(before.id)),
        };
    }
    Ok(set_label(file, label)?)
}

/// A path to an open folder, for appending one entry name.
fn proc_fd_path(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn read_entries(folder: &File) -> io::Result<fs::ReadDir> {
    fs::read_dir(proc_fd_path(folder))
}

/// Opens one entry of a folder; `None` if it is gone or has become a symlink.
fn open_entry(folder: &File, entry: &fs::DirEntry) -> io::Result<Option<File>> {
    let path = proc_fd_path(folder).join(entry.file_name());
    let mut options = OpenOptions::new();
    options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    match options.open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ELOOP)) => Ok(None),
        Err(error) => Err(error),
    }
}
