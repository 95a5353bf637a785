//! A root that is being filled. Only this module creates files from the content of an archive.
//!
//! All operations are relative to the root's descriptor. The kernel resolves the folder of an entry with
//! `RESOLVE_IN_ROOT`, so that links of the archive resolve only inside the root. The last component of a
//! name is never followed. New files belong to the caller, who can always read, write and remove them; none
//! is setuid or setgid.
//!
//! Entry type: [`RootTree`].

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2};
use nix::sys::stat::{Mode, SFlag, UtimensatFlags, fchmod, futimens, mkdirat, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::{linkat, symlinkat};

use super::entry_path::{EntryPath, MAX_FOLDER_DEPTH};
use super::error::UnpackError;
use super::folder::{OpenFolder, is_folder, look, names, open_folder, real_path, remove};

/// Linux's limit for the target of a link.
const MAX_LINK_BYTES: usize = 4095;

/// See the top of the file.
#[derive(Debug)]
pub(crate) struct RootTree {
    root: OwnedFd,
    /// The number of components of the root's own path.
    root_depth: usize,
    /// The folder that was used last. A cache: entries are mostly grouped by folder.
    recent: Option<(PathBuf, Rc<OpenFolder>)>,
    /// What the current layer has created, by inode of the folder and name. Whiteouts do not remove it: they
    /// apply only to the layers below.
    made: HashSet<(u64, OsString)>,
    /// Modification times of folders, set at the end of the layer because creating entries changes them.
    times: Vec<(PathBuf, i64)>,
    skipped: u64,
}

impl RootTree {
    /// Opens an existing folder that belongs to the caller.
    pub(crate) fn open(root: &Path) -> Result<Self, UnpackError> {
        let descriptor: OwnedFd = File::open(root)?.into();
        let root_depth = real_path(&descriptor)?.components().count();
        Ok(Self {
            root: descriptor,
            root_depth,
            recent: None,
            made: HashSet::new(),
            times: Vec::new(),
            skipped: 0,
        })
    }

    /// The number of skipped devices and FIFOs.
    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    pub(crate) fn skip(&mut self) {
        self.skipped += 1;
    }

    pub(crate) fn begin_layer(&mut self) {
        self.made.clear();
        self.times.clear();
    }

    pub(crate) fn end_layer(&mut self) {
        self.recent = None;
        for (path, mtime) in std::mem::take(&mut self.times).into_iter().rev() {
            // A folder that was replaced or removed meanwhile is ignored.
            if let Ok(folder) = self.resolve(&path) {
                let _ = futimens(&folder, &clamped_time(mtime), &clamped_time(mtime));
            }
        }
    }

    /// Flushes the whole file system to disk.
    pub(crate) fn sync(&self) -> Result<(), UnpackError> {
        Ok(nix::unistd::syncfs(&self.root)?)
    }

    pub(crate) fn set_root_mode(&mut self, mode: u32) -> Result<(), UnpackError> {
        Ok(fchmod(&self.root, folder_mode(mode))?)
    }

    pub(crate) fn folder(
        &mut self,
        target: &EntryPath,
        mode: u32,
        mtime: i64,
    ) -> Result<(), UnpackError> {
        let parent = self.parent(&target.parent)?;
        let is_there = look(&parent, &target.last)?.is_some_and(|about| is_folder(&about));
        if !is_there {
            self.remove_existing(&parent, &target.last)?;
            mkdirat(&parent.descriptor, target.last.as_os_str(), Mode::S_IRWXU)?;
        }
        let folder = open_folder(&parent, &target.last)?;
        fchmod(&folder, folder_mode(mode))?;
        self.record_created(&parent, &target.last);
        self.times.push((target.parent.join(&target.last), mtime));
        Ok(())
    }

    /// Creates a file. Replaces whatever has its name.
    pub(crate) fn file(&mut self, target: &EntryPath) -> Result<NewFile, UnpackError> {
        let parent = self.parent(&target.parent)?;
        self.remove_existing(&parent, &target.last)?;
        let flags = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_NOFOLLOW;
        let descriptor = openat(
            &parent.descriptor,
            target.last.as_os_str(),
            flags | OFlag::O_CLOEXEC,
            Mode::S_IRUSR | Mode::S_IWUSR,
        )?;
        self.record_created(&parent, &target.last);
        Ok(NewFile(descriptor.into()))
    }

    pub(crate) fn symlink(
        &mut self,
        target: &EntryPath,
        to: &[u8],
        mtime: i64,
    ) -> Result<(), UnpackError> {
        match to {
            [] => return Err(UnpackError::Link("has no target")),
            _ if to.contains(&0) => return Err(UnpackError::Link("contains a NUL byte")),
            _ if to.len() > MAX_LINK_BYTES => return Err(UnpackError::Link("is too long")),
            _ => {}
        }
        let parent = self.parent(&target.parent)?;
        self.remove_existing(&parent, &target.last)?;
        let name = target.last.as_os_str();
        symlinkat(OsStr::from_bytes(to), &parent.descriptor, name)?;
        let (at, stay) = (clamped_time(mtime), UtimensatFlags::NoFollowSymlink);
        utimensat(&parent.descriptor, name, &at, &at, stay)?;
        self.record_created(&parent, &target.last);
        Ok(())
    }

    /// Adds a name for an existing file or link of the tree.
    pub(crate) fn hard_link(
        &mut self,
        target: &EntryPath,
        source: &EntryPath,
    ) -> Result<(), UnpackError> {
        const MISSING: UnpackError = UnpackError::Link("points to a missing file");
        let from = match self.resolve(&source.parent) {
            Ok(descriptor) => OpenFolder::new(descriptor)?,
            Err(_) => return Err(MISSING),
        };
        let about = look(&from, &source.last)?.ok_or(MISSING)?;
        let kind = SFlag::from_bits_truncate(about.st_mode) & SFlag::S_IFMT;
        if kind != SFlag::S_IFREG && kind != SFlag::S_IFLNK {
            return Err(UnpackError::Link("does not point to a file"));
        }
        let parent = self.parent(&target.parent)?;
        if parent.inode == from.inode && target.last == source.last {
            return Ok(());
        }
        self.remove_existing(&parent, &target.last)?;
        linkat(
            &from.descriptor,
            source.last.as_os_str(),
            &parent.descriptor,
            target.last.as_os_str(),
            AtFlags::empty(),
        )?;
        self.record_created(&parent, &target.last);
        Ok(())
    }

    /// Applies a whiteout: removes what the layers below have under this name.
    pub(crate) fn hide(&mut self, parent: &Path, name: &OsStr) -> Result<(), UnpackError> {
        self.recent = None;
        match self.resolve(parent) {
            Ok(descriptor) => {
                remove(&OpenFolder::new(descriptor)?, name, &self.made)?;
                Ok(())
            }
            // There is no such folder, so there is nothing to remove.
            Err(_) => Ok(()),
        }
    }

    /// Applies an opaque whiteout: removes everything that the layers below have in this folder.
    pub(crate) fn remove_all_lower(&mut self, folder: &Path) -> Result<(), UnpackError> {
        self.recent = None;
        let Ok(descriptor) = self.resolve(folder) else {
            return Ok(());
        };
        let folder = OpenFolder::new(descriptor)?;
        for name in names(&folder)? {
            remove(&folder, &name, &self.made)?;
        }
        Ok(())
    }

    /// Removes whatever is under this path.
    pub(crate) fn remove(&mut self, path: &str) -> Result<(), UnpackError> {
        self.made.clear();
        match EntryPath::parse(path.as_bytes())? {
            Some(target) => self.hide(&target.parent, &target.last),
            None => Ok(()),
        }
    }

    /// Removes everything in a folder, if there is one.
    pub(crate) fn empty(&mut self, path: &str) -> Result<(), UnpackError> {
        self.made.clear();
        self.remove_all_lower(Path::new(path))
    }

    /// Writes a small file.
    pub(crate) fn write(
        &mut self,
        path: &str,
        mode: u32,
        content: &[u8],
    ) -> Result<(), UnpackError> {
        let target =
            EntryPath::parse(path.as_bytes())?.ok_or(UnpackError::Name("is the root itself"))?;
        let mut file = self.file(&target)?;
        file.0.write_all(content)?;
        file.finish(mode, 0)
    }

    fn record_created(&mut self, parent: &OpenFolder, name: &OsStr) {
        self.made.insert((parent.inode, name.to_owned()));
    }

    /// Removes an existing entry that is about to be replaced.
    fn remove_existing(&mut self, parent: &OpenFolder, name: &OsStr) -> Result<(), UnpackError> {
        let Some(about) = look(parent, name)? else {
            return Ok(());
        };
        if is_folder(&about) {
            // It may be the cached folder.
            self.recent = None;
        }
        remove(parent, name, &HashSet::new())?;
        Ok(())
    }

    /// Opens the parent folder of an entry. Creates it if it is missing.
    fn parent(&mut self, path: &Path) -> Result<Rc<OpenFolder>, UnpackError> {
        if let Some((recent, folder)) = &self.recent
            && recent == path
        {
            return Ok(Rc::clone(folder));
        }
        let descriptor = match self.resolve(path) {
            Err(Errno::ENOENT) => self.create_parents(path)?,
            outcome => outcome.map_err(folder_error)?,
        };
        // Through links, folders can be nested deeper than any name shows.
        let real = real_path(&descriptor)?;
        if real.components().count() > self.root_depth + MAX_FOLDER_DEPTH {
            return Err(UnpackError::Name("is too deep"));
        }
        let folder = Rc::new(OpenFolder::new(descriptor)?);
        self.recent = Some((path.to_owned(), Rc::clone(&folder)));
        Ok(folder)
    }

    fn create_parents(&mut self, path: &Path) -> Result<OwnedFd, UnpackError> {
        let mut above = self.resolve(Path::new("")).map_err(folder_error)?;
        let mut so_far = PathBuf::new();
        for part in path {
            so_far.push(part);
            above = match self.resolve(&so_far) {
                Err(Errno::ENOENT) => {
                    match mkdirat(&above, part, Mode::from_bits_truncate(0o755)) {
                        // The name is a dangling link.
                        Err(Errno::EEXIST) => return Err(folder_error(Errno::EEXIST)),
                        outcome => outcome?,
                    }
                    let made = OpenFolder::new(above)?;
                    let folder = open_folder(&made, part)?;
                    fchmod(&folder, Mode::from_bits_truncate(0o755))?;
                    self.record_created(&made, part);
                    folder
                }
                outcome => outcome.map_err(folder_error)?,
            };
        }
        Ok(above)
    }

    /// Opens a folder, with links resolved inside the root.
    fn resolve(&self, path: &Path) -> nix::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let how = OpenHow::new()
            .flags(OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
            .resolve(
                ResolveFlag::RESOLVE_IN_ROOT
                    | ResolveFlag::RESOLVE_NO_MAGICLINKS
                    | ResolveFlag::RESOLVE_NO_XDEV,
            );
        loop {
            match openat2(&self.root, path, how) {
                // The kernel gives up with EAGAIN if something was renamed during the lookup.
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                outcome => return outcome,
            }
        }
    }
}

/// A newly created file (`O_EXCL`), which has no other name yet.
#[derive(Debug)]
pub(crate) struct NewFile(File);

impl NewFile {
    pub(crate) fn fill(&mut self, mut content: impl Read, size: u64) -> Result<(), UnpackError> {
        let written = io::copy(&mut content, &mut self.0)?;
        if written == size {
            Ok(())
        } else {
            Err(UnpackError::Malformed("it is cut off"))
        }
    }

    pub(crate) fn write_pieces(
        &mut self,
        mut content: impl Read,
        pieces: &[(u64, u64)],
        size: u64,
    ) -> Result<(), UnpackError> {
        self.0.set_len(size)?;
        for (offset, length) in pieces {
            self.0.seek(SeekFrom::Start(*offset))?;
            let written = io::copy(&mut content.by_ref().take(*length), &mut self.0)?;
            if written != *length {
                return Err(UnpackError::Malformed("it is cut off"));
            }
        }
        Ok(())
    }

    pub(crate) fn finish(self, mode: u32, mtime: i64) -> Result<(), UnpackError> {
        let mode = Mode::from_bits_truncate(mode & 0o1777 | 0o600);
        fchmod(&self.0, mode)?;
        futimens(&self.0, &clamped_time(mtime), &clamped_time(mtime))?;
        Ok(())
    }
}

fn folder_error(error: Errno) -> UnpackError {
    match error {
        Errno::EEXIST => UnpackError::Name("goes through a dangling link"),
        Errno::ENOTDIR => UnpackError::Name("goes through something that is not a folder"),
        Errno::ELOOP => UnpackError::Name("goes through a loop of links"),
        Errno::EXDEV => UnpackError::Name("leads out of the root"),
        error => error.into(),
    }
}

fn folder_mode(mode: u32) -> Mode {
    Mode::from_bits_truncate(mode & 0o1777 | 0o700)
}

/// Clamps a time to the range that every file system can store.
fn clamped_time(seconds: i64) -> TimeSpec {
    TimeSpec::new(seconds.clamp(0, i64::from(u32::MAX)), 0)
}
