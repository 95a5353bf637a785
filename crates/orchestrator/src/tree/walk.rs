//! Visits everything below a folder, in an order that depends only on names.
//!
//! Iterative, with one open folder at a time: depth costs neither stack nor descriptors. Each
//! folder is opened again from the top, so that a folder that was replaced by a link meanwhile is
//! not entered.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::ops::ControlFlow;

use nix::sys::stat::FileStat;

use super::folder::TreeFolder;
use super::name::MAX_PATH_BYTES;
use super::{Kind, UntrustedTree, kind};

/// A visited entry.
#[derive(Debug)]
pub(crate) enum TreeVisit<'a> {
    /// A folder, before its contents.
    Folder {
        path: &'a [u8],
        stat: &'a FileStat,
        is_empty: bool,
    },
    /// Anything else.
    Leaf(TreeLeaf<'a>),
    /// A folder that cannot be read.
    Closed { path: &'a [u8], error: io::Error },
}

/// A file, link or other entry that is not a folder.
#[derive(Debug)]
pub(crate) struct TreeLeaf<'a> {
    pub(crate) path: &'a [u8],
    pub(crate) stat: &'a FileStat,
    folder: &'a TreeFolder,
    name: &'a CStr,
}

impl TreeLeaf<'_> {
    pub(crate) fn kind(&self) -> Kind {
        kind(self.stat)
    }

    /// Opens the entry if it is now a regular file; returns it with its current metadata.
    pub(crate) fn open(&self) -> io::Result<(File, FileStat)> {
        self.folder.open_file(self.name)
    }

    pub(crate) fn target(&self) -> io::Result<Vec<u8>> {
        self.folder.target(self.name)
    }
}

/// The result of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WalkResult {
    /// Whether the limit was reached and entries were skipped.
    pub(crate) is_cut: bool,
}

/// The folders of one level that are still to be visited, the next one last.
struct WalkLevel {
    /// Length of the parent's path.
    above: usize,
    folders: Vec<(CString, FileStat)>,
}

impl UntrustedTree {
    /// Visits at most this many names: the files of a folder by name, then its folders by name.
    pub(crate) fn walk(
        &self,
        most: u64,
        mut visit: impl FnMut(TreeVisit<'_>) -> ControlFlow<()>,
    ) -> io::Result<WalkResult> {
        let mut left = usize::try_from(most).unwrap_or(usize::MAX);
        let mut path = Vec::new();
        let mut is_cut = false;
        let mut levels: Vec<WalkLevel> = Vec::new();
        let top = TreeFolder::open(&self.root, b"")?;
        match enter(&top, &mut path, None, &mut left, &mut visit)? {
            ControlFlow::Break(()) => return Ok(WalkResult { is_cut }),
            ControlFlow::Continue(entered) => {
                is_cut |= entered.is_cut;
                levels.push(entered.level);
            }
        }
        drop(top);
        while let Some(level) = levels.last_mut() {
            path.truncate(level.above);
            let Some((name, stat)) = level.folders.pop() else {
                levels.pop();
                continue;
            };
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.to_bytes());
            let entered = if path.len() > MAX_PATH_BYTES {
                Err(io::Error::other("its path is too long"))
            } else {
                TreeFolder::open(&self.root, &path).and_then(|folder| {
                    enter(&folder, &mut path, Some(&stat), &mut left, &mut visit)
                })
            };
            match entered {
                Ok(ControlFlow::Break(())) => return Ok(WalkResult { is_cut }),
                Ok(ControlFlow::Continue(entered)) => {
                    is_cut |= entered.is_cut;
                    levels.push(entered.level);
                }
                Err(error) => {
                    let closed = TreeVisit::Closed { path: &path, error };
                    if visit(closed).is_break() {
                        return Ok(WalkResult { is_cut });
                    }
                }
            }
        }
        Ok(WalkResult { is_cut })
    }
}

struct EnteredFolder {
    level: WalkLevel,
    is_cut: bool,
}

/// Visits a folder and its files. Its subfolders are returned for later.
fn enter(
    folder: &TreeFolder,
    path: &mut Vec<u8>,
    stat: Option<&FileStat>,
    left: &mut usize,
    visit: &mut impl FnMut(TreeVisit<'_>) -> ControlFlow<()>,
) -> io::Result<ControlFlow<(), EnteredFolder>> {
    let (names, is_cut) = folder.names(*left)?;
    *left -= names.len();
    let above = path.len();
    if let Some(stat) = stat {
        let is_empty = names.is_empty() && !is_cut;
        let visited = TreeVisit::Folder {
            path,
            stat,
            is_empty,
        };
        if visit(visited).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    let mut folders = Vec::new();
    for name in names {
        // Skip entries that were removed meanwhile.
        let Ok(stat) = folder.stat(&name) else {
            continue;
        };
        if kind(&stat) == Kind::Folder {
            folders.push((name, stat));
            continue;
        }
        if above > 0 {
            path.push(b'/');
        }
        path.extend_from_slice(name.to_bytes());
        let leaf = TreeLeaf {
            path,
            stat: &stat,
            folder,
            name: &name,
        };
        let flow = visit(TreeVisit::Leaf(leaf));
        path.truncate(above);
        if flow.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    folders.reverse();
    let level = WalkLevel { above, folders };
    Ok(ControlFlow::Continue(EnteredFolder { level, is_cut }))
}
