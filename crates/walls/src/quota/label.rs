//! Labels every file of a folder with a project id. Goes from folder to folder by descriptor and through
//! no link, because a sandbox may have made what it walks through. Entry point: [`label`].

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;

use super::PROJECT_IDS;
use super::calls::{label_of, set_label};

/// Labelling takes time before the first command: at most about this many files' worth.
const MAX_FILES: usize = 50_000;

/// Each level keeps a descriptor open.
const MAX_DEPTH: usize = 200;

/// To which project a file belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Label {
    /// 0 is none.
    pub(super) id: u32,
    /// Whether new files in a folder get it too.
    pub(super) is_inherited: bool,
}

impl Label {
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
    /// A file is another's project's: what is written to it would count there.
    OtherProject(u32),
    Io(io::Error),
}

impl From<io::Error> for LabelError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Labels a folder and all that it holds.
pub(super) fn label(folder: &File, label: Label) -> Result<(), LabelError> {
    let device = folder.metadata()?.dev();
    change(folder, label)?;
    let mut files = 0;
    let mut open = vec![(folder.try_clone()?, entries(folder)?)];
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
        // Others hold nothing, and cannot be opened without an effect.
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
        let label = Label {
            is_inherited: label.is_inherited && found.is_dir(),
            ..label
        };
        if found.is_dir() {
            change(&file, label)?;
            if open.len() == MAX_DEPTH {
                return Err(io::Error::from_raw_os_error(libc::ELOOP).into());
            }
            let inside = self::entries(&file)?;
            open.push((file, inside));
        } else if found.is_file() {
            change(&file, label)?;
        }
    }
    Ok(())
}

fn change(file: &File, label: Label) -> Result<(), LabelError> {
    let before = label_of(file)?;
    if before == label {
        return Ok(());
    }
    if before.id != 0 && !PROJECT_IDS.contains(&before.id) {
        return match label.id {
            // What was never changed needs no undoing.
            0 => Ok(()),
            _ => Err(LabelError::OtherProject(before.id)),
        };
    }
    Ok(set_label(file, label)?)
}

/// The folder that a descriptor leads to, for paths of one step more.
fn place(folder: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd()))
}

fn entries(folder: &File) -> io::Result<fs::ReadDir> {
    fs::read_dir(place(folder))
}

/// Opens one name of a folder; nothing if it is gone or has become a link.
fn open_entry(folder: &File, entry: &fs::DirEntry) -> io::Result<Option<File>> {
    let path = place(folder).join(entry.file_name());
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
