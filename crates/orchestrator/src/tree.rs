//! Reads a folder that untrusted programs may modify at the same time.
//!
//! Everything is opened relative to an open folder, never through a link and never by absolute
//! path, so that nothing outside can be read even if names change meanwhile. Opens only regular
//! files; never blocks on a FIFO. Read-only, except for [`remove_tree`]. Entry type: [`UntrustedTree`].

mod folder;
mod name;
mod open;
mod remove;
#[cfg(test)]
mod tests;
mod walk;

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use jiff::Timestamp;
use nix::sys::stat::FileStat;
use serde::Serialize;
use utoipa::ToSchema;

pub(crate) use self::name::{escape, escape_for_zip, shown};
pub(crate) use self::remove::remove_tree;
pub(crate) use self::walk::{TreeLeaf, TreeVisit};

/// An open folder and everything below it.
#[derive(Debug)]
pub(crate) struct UntrustedTree {
    root: OwnedFd,
}

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    File,
    Folder,
    Link,
    /// A device, a FIFO or a socket.
    Other,
}

/// One name in a folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub(crate) struct Entry {
    /// For people; what is no text in it is replaced.
    pub(crate) name: String,
    /// By which it can be asked for. Bytes that are no text are written as `%FF`, and a `%` before
    /// two hexadecimal digits as `%25`; most paths are simply themselves.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    pub(crate) bytes: u64,
    #[schema(value_type = Option<String>, format = DateTime)]
    pub(crate) modified: Option<Timestamp>,
    /// Where a link leads. It is never followed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) target: Option<String>,
}

/// The entries of a folder, sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FolderListing {
    pub(crate) entries: Vec<Entry>,
    /// Whether some entries are missing.
    pub(crate) is_truncated: bool,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum TreeError {
    #[error("there is no `{0}`")]
    Absent(String),
    #[error("`{0}` is no path inside the workspace")]
    BadPath(String),
    /// The path itself, or one of its parents.
    #[error("`{0}` is a link, and links are not followed")]
    Link(String),
    #[error("`{0}` is not a file")]
    NotFile(String),
    #[error("`{0}` is not a folder")]
    NotFolder(String),
    #[error("cannot read `{path}`")]
    Io { path: String, source: io::Error },
}

impl UntrustedTree {
    /// Links in the path of the folder itself are followed: that path is trusted.
    pub(crate) fn open(folder: &Path) -> io::Result<Self> {
        Ok(Self {
            root: open::root(folder)?,
        })
    }

    /// Lists at most this many entries of a folder; the empty path is the tree itself.
    pub(crate) fn list(&self, path: &str, most: usize) -> Result<FolderListing, TreeError> {
        let raw = name::unescape(path).ok_or_else(|| TreeError::BadPath(path.to_owned()))?;
        let fail = |error| TreeError::new(path, error, TreeError::NotFolder);
        let folder = folder::TreeFolder::open(&self.root, &raw).map_err(fail)?;
        let (names, is_truncated) = folder.names(most).map_err(fail)?;
        let mut entries = Vec::with_capacity(names.len());
        let prefix = if raw.is_empty() {
            String::new()
        } else {
            format!("{}/", escape(&raw))
        };
        for name in names {
            // Skip entries that were removed meanwhile.
            let Ok(stat) = folder.stat(&name) else {
                continue;
            };
            let kind = kind(&stat);
            let target = match kind {
                Kind::Link => folder.target(&name).ok().map(|target| shown(&target)),
                _ => None,
            };
            entries.push(Entry {
                name: shown(name.to_bytes()),
                path: format!("{prefix}{}", escape(name.to_bytes())),
                kind,
                bytes: size(&stat),
                modified: modified(&stat),
                target,
            });
        }
        Ok(FolderListing {
            entries,
            is_truncated,
        })
    }

    /// Opens a regular file; returns it with its current size.
    pub(crate) fn open_file(&self, path: &str) -> Result<(File, u64), TreeError> {
        let bad = || TreeError::BadPath(path.to_owned());
        let raw = name::unescape(path).filter(|raw| !raw.is_empty());
        let raw = raw.ok_or_else(bad)?;
        let fail = |error| TreeError::new(path, error, TreeError::NotFile);
        let (file, stat) = open::file(&self.root, &raw).map_err(fail)?;
        Ok((file, size(&stat)))
    }
}

impl TreeError {
    fn new(path: &str, error: io::Error, other: fn(String) -> Self) -> Self {
        let path = path.to_owned();
        match error.raw_os_error() {
            Some(libc_error) => match nix::errno::Errno::from_raw(libc_error) {
                nix::errno::Errno::ENOENT => Self::Absent(path),
                nix::errno::Errno::ELOOP => Self::Link(path),
                nix::errno::Errno::ENOTDIR | nix::errno::Errno::ENXIO => other(path),
                nix::errno::Errno::ENAMETOOLONG => Self::BadPath(path),
                _ => Self::Io {
                    path,
                    source: error,
                },
            },
            None if error.kind() == io::ErrorKind::InvalidInput => other(path),
            None => Self::Io {
                path,
                source: error,
            },
        }
    }
}

pub(crate) fn kind(stat: &FileStat) -> Kind {
    match stat.st_mode & nix::sys::stat::SFlag::S_IFMT.bits() {
        mode if mode == nix::sys::stat::SFlag::S_IFREG.bits() => Kind::File,
        mode if mode == nix::sys::stat::SFlag::S_IFDIR.bits() => Kind::Folder,
        mode if mode == nix::sys::stat::SFlag::S_IFLNK.bits() => Kind::Link,
        _ => Kind::Other,
    }
}

pub(crate) fn size(stat: &FileStat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// `None` for times outside the range of timestamps.
pub(crate) fn modified(stat: &FileStat) -> Option<Timestamp> {
    let nanoseconds = i32::try_from(stat.st_mtime_nsec).ok()?;
    Timestamp::new(stat.st_mtime, nanoseconds).ok()
}
