//! Walks through folders that a hostile command may have created.
//!
//! Visits entries in the order of names and follows no symlink. This module reads ignore files itself,
//! because a FIFO, a device or an endless file of that name must not block the guest or fill its memory.
//! The `ignore` crate interprets the patterns.

use std::ffi::OsStr;
use std::fs::{self, File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

/// The part of an ignore file beyond this is not read. No real ignore file is as long.
const MAX_IGNORE_FILE_BYTES: u64 = 256 * 1024;

/// Paths of ignore files, relative to a folder.
const IGNORE_FILES: &[&str] = &[".git/info/exclude", ".gitignore", ".ignore"];

/// One entry of a walk.
pub(crate) struct WalkEntry {
    pub(crate) path: PathBuf,
    pub(crate) kind: FileType,
}

/// Iterates over all entries below a folder, up to a depth. Skips what is not readable.
pub(crate) struct Walk {
    /// Entries still to visit, the next one last.
    ahead: Vec<(PathBuf, FileType, u32, Option<Rc<IgnoreRules>>)>,
    depth: u32,
    passing: SkipPolicy,
}

/// What a walk skips.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipPolicy {
    Nothing,
    /// Entries that `.gitignore` and `.ignore` match, and `.git` itself.
    Ignored,
    /// These, and all hidden entries.
    IgnoredAndHidden,
}

impl SkipPolicy {
    pub(crate) fn of(ignore: bool, hidden: bool) -> Self {
        match (ignore, hidden) {
            (false, _) => Self::Nothing,
            (true, true) => Self::Ignored,
            (true, false) => Self::IgnoredAndHidden,
        }
    }

    fn skips(self, name: &OsStr) -> bool {
        match self {
            Self::Nothing => false,
            Self::Ignored => name == ".git",
            Self::IgnoredAndHidden => name.as_encoded_bytes().starts_with(b"."),
        }
    }
}

/// The ignore rules of a folder and of its parents.
struct IgnoreRules {
    own: Gitignore,
    above: Option<Rc<IgnoreRules>>,
}

impl IgnoreRules {
    /// The rules of the nearest folder that match decide.
    fn ignores(&self, path: &Path, is_folder: bool) -> bool {
        match self.own.matched(path, is_folder) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self
                .above
                .as_ref()
                .is_some_and(|rules| rules.ignores(path, is_folder)),
        }
    }
}

impl Walk {
    pub(crate) fn new(root: &Path, depth: u32, passing: SkipPolicy) -> Self {
        let mut walk = Self {
            ahead: Vec::new(),
            depth,
            passing,
        };
        walk.enter(root, 0, None);
        walk
    }

    fn enter(&mut self, folder: &Path, depth: u32, above: Option<Rc<IgnoreRules>>) {
        if depth >= self.depth {
            return;
        }
        let Ok(entries) = fs::read_dir(folder) else {
            return;
        };
        let entries: Vec<_> = entries.flatten().collect();
        let has_rules = entries.iter().any(|entry| {
            let name = entry.file_name();
            IGNORE_FILES
                .iter()
                .any(|path| Path::new(path).starts_with(&name))
        });
        let rules = match (self.passing, has_rules) {
            (SkipPolicy::Nothing, _) => None,
            (_, true) => read_rules(folder, above),
            (_, false) => above,
        };
        let first = self.ahead.len();
        for entry in entries {
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            let is_ignored = rules
                .as_ref()
                .is_some_and(|rules| rules.ignores(&path, kind.is_dir()));
            if !is_ignored && !self.passing.skips(&entry.file_name()) {
                self.ahead.push((path, kind, depth + 1, rules.clone()));
            }
        }
        self.ahead[first..].sort_by(|one, other| other.0.file_name().cmp(&one.0.file_name()));
    }
}

impl Iterator for Walk {
    type Item = WalkEntry;

    fn next(&mut self) -> Option<WalkEntry> {
        let (path, kind, depth, rules) = self.ahead.pop()?;
        if kind.is_dir() {
            self.enter(&path, depth, rules);
        }
        Some(WalkEntry { path, kind })
    }
}

fn read_rules(folder: &Path, above: Option<Rc<IgnoreRules>>) -> Option<Rc<IgnoreRules>> {
    let mut rules = GitignoreBuilder::new(folder);
    let mut any = false;
    for name in IGNORE_FILES {
        let Ok(text) = open_regular(&folder.join(name)).and_then(read_prefix) else {
            continue;
        };
        for line in text.lines() {
            // Skip invalid lines, as git does.
            any |= rules.add_line(None, line).is_ok();
        }
    }
    match any.then(|| rules.build().ok()).flatten() {
        Some(own) => Some(Rc::new(IgnoreRules { own, above })),
        None => above,
    }
}

fn read_prefix(file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.take(MAX_IGNORE_FILE_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Opens a regular file; fails for any other type.
pub(crate) fn open_regular(path: &Path) -> io::Result<File> {
    let file = open_nonblocking(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::from_raw_os_error(libc::EISDIR))
    }
}

/// Opens any type of file for reading. A FIFO does not block the worker, and a terminal does not become the
/// guest's controlling terminal.
pub(crate) fn open_nonblocking(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
}
