//! Unpacks an uploaded zip into a new folder. Refuses the whole zip at the first suspicious entry.
//! A zip can also be checked in the same way without writing anything.
//!
//! Folders are entered by descriptor, never through a link. Files are created, never opened or
//! overwritten. The sizes declared in the zip are only a first check: the limits apply to the
//! unpacked bytes.

mod directory;
mod names;

use std::cell::Cell;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat};
use nix::sys::stat::{Mode, fchmod, mkdirat};
use zip::ZipArchive;
use zip::read::ZipFile;
use zip::result::ZipError;

use self::names::{NameClash, ZipNames};
use super::InputError;

/// Maximum number of entries, and of the files and folders created from them.
const MAX_ENTRIES: usize = 100_000;

/// Disk space that is counted per file or folder besides its contents, in bytes.
const INODE_BYTES: u64 = 4 << 10;

/// Maximum nesting of folders.
const MAX_DEPTH: usize = 100;

/// Maximum bytes of one path component.
const MAX_NAME_BYTES: usize = 255;

/// Maximum bytes of the zip's central directory, which is held in memory.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// Above this size, the contents must not be more than [`MAX_RATIO`] times as large as the zip.
const RATIO_CHECK_MIN_BYTES: u64 = 10 << 20;
const MAX_RATIO: u64 = 200;

const MAX_PATH_BYTES: usize = 4095;

/// Unpacks a zip to at most this many bytes. Blocks.
pub(super) fn unpack(zip: &Path, into: &Path, most: u64) -> Result<(), InputError> {
    process_zip(zip, Some(UnpackTarget::open(into)?), most)
}

/// Checks that a zip can be unpacked to at most this many bytes. Reads all of it, writes nothing.
/// Blocks.
pub(super) fn check(zip: &Path, most: u64) -> Result<(), InputError> {
    process_zip(zip, None, most)
}

fn process_zip(zip: &Path, mut target: Option<UnpackTarget>, most: u64) -> Result<(), InputError> {
    let file = File::open(zip).map_err(|_| InputError("the uploaded zip is gone".to_owned()))?;
    let length = file
        .metadata()
        .map_err(InputError::server("read the uploaded zip"))?
        .len();
    let by_ratio = length.saturating_mul(MAX_RATIO).max(RATIO_CHECK_MIN_BYTES);
    let mut file = BufReader::new(file);
    directory::check(&mut file, length)?;
    let left = Rc::new(Cell::new(MAX_DIRECTORY_BYTES));
    let reader = BudgetReader {
        inner: file,
        left: Rc::clone(&left),
    };
    let mut archive = ZipArchive::new(reader).map_err(unreadable)?;
    left.set(u64::MAX);
    if archive.len() > MAX_ENTRIES {
        return refuse(format!("it has more than {MAX_ENTRIES} entries"));
    }
    if archive.has_duplicate_names() {
        return refuse("it has two entries of the same name");
    }
    if archive.has_overlapping_entries().map_err(unreadable)? {
        return refuse("its entries overlap");
    }
    let mut names = ZipNames::default();
    let mut allowance = UnzipBudget {
        most,
        by_ratio,
        inodes: MAX_ENTRIES as u64,
    };
    for index in 0..archive.len() {
        let listed = archive.by_index_data(index).map_err(unreadable)?;
        if listed.encrypted() {
            return refuse("it is encrypted");
        }
        let entry = archive.by_index(index).map_err(unreadable)?;
        add_entry(&mut names, target.as_mut(), entry, &mut allowance)?;
    }
    Ok(())
}

/// Remaining bytes and inodes.
struct UnzipBudget {
    most: u64,
    by_ratio: u64,
    inodes: u64,
}

impl UnzipBudget {
    /// Empty files and folders count too.
    fn take_inodes(&mut self, count: u64) -> Result<(), InputError> {
        match self.inodes.checked_sub(count) {
            Some(left) => self.inodes = left,
            None => {
                return refuse(format!("it has more than {MAX_ENTRIES} files and folders"));
            }
        }
        self.take_disk(count.saturating_mul(INODE_BYTES))
    }

    fn take_disk(&mut self, bytes: u64) -> Result<(), InputError> {
        match self.most.checked_sub(bytes) {
            Some(left) => self.most = left,
            None => return refuse("its contents are larger than the job's disk limit"),
        }
        Ok(())
    }

    fn take(&mut self, bytes: u64) -> Result<(), InputError> {
        self.take_disk(bytes)?;
        match self.by_ratio.checked_sub(bytes) {
            Some(left) => self.by_ratio = left,
            None => {
                return refuse(format!(
                    "its contents are more than {MAX_RATIO} times as large as it is"
                ));
            }
        }
        Ok(())
    }
}

fn add_entry<R: Read + Seek>(
    names: &mut ZipNames,
    target: Option<&mut UnpackTarget>,
    mut entry: ZipFile<'_, R>,
    allowance: &mut UnzipBudget,
) -> Result<(), InputError> {
    let name = entry.name().map_err(unreadable)?.into_owned();
    let shown = || {
        name.chars()
            .take(200)
            .flat_map(char::escape_debug)
            .collect::<String>()
    };
    let refuse_entry = |why: &str| refuse(format!("`{}` {why}", shown()));
    const FILE_TYPE_MASK: u32 = 0o170_000;
    match entry.unix_mode().unwrap_or(0) & FILE_TYPE_MASK {
        0 | 0o100_000 | 0o040_000 => {}
        0o120_000 => return refuse_entry("is a link"),
        _ => return refuse_entry("is neither a file nor a folder"),
    }
    if entry.is_symlink() {
        return refuse_entry("is a link");
    }
    if name.starts_with('/') {
        return refuse_entry("does not begin in the workspace");
    }
    if name.contains(['\\', '\0']) {
        return refuse_entry("has a character that names must not have");
    }
    if name.len() > MAX_PATH_BYTES {
        return refuse_entry("has too long a name");
    }
    let parts: Vec<&str> = name
        .split('/')
        .filter(|part| !matches!(*part, "" | "."))
        .collect();
    if parts.contains(&"..") {
        return refuse_entry("leads out of the workspace");
    }
    if parts.len() > MAX_DEPTH {
        return refuse_entry("is too deep");
    }
    if parts.iter().any(|part| part.len() > MAX_NAME_BYTES) {
        return refuse_entry("has too long a name");
    }
    let is_folder = entry.is_dir();
    match names.add(&parts, is_folder) {
        Ok(new) => allowance.take_inodes(new)?,
        Err(NameClash) => return refuse_entry("is in it twice"),
    }
    let failed = |error: io::Error| match error.raw_os_error().map(Errno::from_raw) {
        // Different names can be equal on a case-insensitive file system.
        Some(Errno::EEXIST | Errno::ENOTDIR | Errno::ELOOP | Errno::EISDIR) => {
            InputError(format!("{ERROR_PREFIX}: `{}` is in it twice", shown()))
        }
        _ => InputError(format!(
            "{ERROR_PREFIX}: cannot write `{}`: {error}",
            shown()
        )),
    };
    if is_folder {
        return match target {
            Some(target) => target.enter(&parts).map(drop).map_err(failed),
            None => Ok(()),
        };
    }
    let Some((file_name, folders)) = parts.split_last() else {
        return refuse_entry("is no name");
    };
    let is_program = entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
    let file = target.map(|target| target.create(folders, file_name, is_program));
    let mut file = file.transpose().map_err(failed)?;
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = match entry.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(length) => length,
            Err(error) => return refuse_entry(&format!("cannot be read: {error}")),
        };
        allowance.take(length as u64)?;
        if let Some(file) = &mut file {
            file.write_all(&buffer[..length]).map_err(failed)?;
        }
    }
}

/// The folder that the zip is unpacked into.
struct UnpackTarget {
    root: OwnedFd,
    /// Cache of the last folder: the next file is usually in the same one.
    last: Option<(String, OwnedFd)>,
}

impl UnpackTarget {
    fn open(folder: &Path) -> Result<Self, InputError> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let root = open(folder, flags, Mode::empty()).map_err(io::Error::from);
        let root = root.map_err(InputError::server("make the workspace"))?;
        Ok(Self { root, last: None })
    }

    /// Opens a folder and creates missing parts of it.
    fn enter(&mut self, parts: &[&str]) -> io::Result<BorrowedFd<'_>> {
        let path = parts.join("/");
        if self.last.as_ref().is_none_or(|(last, _)| *last != path) {
            let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
            let mut folder = self.root.try_clone()?;
            for part in parts {
                let part = CString::new(*part)?;
                match mkdirat(&folder, part.as_c_str(), Mode::from_bits_truncate(0o755)) {
                    Ok(()) | Err(Errno::EEXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                folder = openat(&folder, part.as_c_str(), flags, Mode::empty())?;
            }
            self.last = Some((path, folder));
        }
        let (_, folder) = self.last.as_ref().expect("`last` was just set");
        Ok(folder.as_fd())
    }

    fn create(&mut self, folders: &[&str], name: &str, is_program: bool) -> io::Result<File> {
        let folder = self.enter(folders)?;
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let mode = Mode::from_bits_truncate(if is_program { 0o755 } else { 0o644 });
        let name = CString::new(name)?;
        let file = openat(folder, name.as_c_str(), flags, mode)?;
        fchmod(&file, mode)?;
        Ok(File::from(file))
    }
}

/// A reader that fails after a number of bytes.
#[derive(Debug)]
struct BudgetReader<R> {
    inner: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for BudgetReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = self.inner.read(buffer)?;
        let left = self.left.get().checked_sub(length as u64);
        self.left
            .set(left.ok_or_else(|| io::Error::other("its list of entries is too long"))?);
        Ok(length)
    }
}

impl<R: Seek> Seek for BudgetReader<R> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.inner.seek(to)
    }
}

const ERROR_PREFIX: &str = "cannot unpack the uploaded zip";

fn refuse<T>(why: impl AsRef<str>) -> Result<T, InputError> {
    Err(InputError(format!("{ERROR_PREFIX}: {}", why.as_ref())))
}

fn unreadable(error: ZipError) -> InputError {
    let why = error.to_string();
    let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
    InputError(format!("{ERROR_PREFIX}: {why}"))
}
