//! An index of the files in an archive: offset and size by name. Links between them (in older archives some
//! layers are links to others) are resolved in this index, never on disk.
//!
//! Entry type: [`ArchiveMembers`].

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};

use super::MAX_DOCUMENT_BYTES;
use crate::error::ImageError;
use crate::unpack::UnpackError;
use crate::unpack::budget::{Compression, UnpackBudget, UnpackLimits, packing, unpacked};
use crate::unpack::entries::{TarEntryKind, TarReader};

/// Real image archives have far fewer files.
const MAX_MEMBERS: usize = 100_000;
/// How many links are followed for one name.
const MAX_LINK_HOPS: usize = 8;

pub(crate) struct ArchiveMembers {
    path: PathBuf,
    file: File,
    by_name: HashMap<String, Member>,
}

enum Member {
    File { offset: u64, size: u64 },
    Link(String),
}

impl ArchiveMembers {
    pub(crate) fn open(
        path: &Path,
        scratch: &Path,
        limits: UnpackLimits,
    ) -> Result<Self, ImageError> {
        let unreadable = |source: UnpackError| ImageError::ReadArchive {
            path: path.to_owned(),
            source,
        };
        let file = open_uncompressed(path, scratch, limits).map_err(unreadable)?;
        let by_name = index_members(&file).map_err(unreadable)?;
        Ok(Self {
            path: path.to_owned(),
            file,
            by_name,
        })
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    fn find(&self, name: &str) -> Option<(u64, u64)> {
        let mut name = normalize_name(name)?;
        for _ in 0..MAX_LINK_HOPS {
            match self.by_name.get(&name)? {
                Member::File { offset, size } => return Some((*offset, *size)),
                Member::Link(next) => name.clone_from(next),
            }
        }
        None
    }

    fn missing(&self, name: &str) -> ImageError {
        ImageError::Incomplete {
            what: format!("the archive `{}`", self.path.display()),
            missing: name.chars().take(200).collect(),
        }
    }

    /// Opens a file of the archive for reading from its start.
    pub(crate) fn read(&self, name: &str) -> Result<impl Read + use<'_>, ImageError> {
        let (offset, size) = self.find(name).ok_or_else(|| self.missing(name))?;
        let mut file = &self.file;
        let sought = file.seek(SeekFrom::Start(offset));
        sought.map_err(|error| ImageError::ReadArchive {
            path: self.path.clone(),
            source: error.into(),
        })?;
        Ok(BufReader::with_capacity(1 << 16, file.take(size)))
    }

    /// Reads a small file of the archive into memory.
    pub(crate) fn document(&self, name: &str) -> Result<Vec<u8>, ImageError> {
        let (_, size) = self.find(name).ok_or_else(|| self.missing(name))?;
        let unreadable = |source| ImageError::ReadArchive {
            path: self.path.clone(),
            source,
        };
        if size > MAX_DOCUMENT_BYTES {
            return Err(unreadable(UnpackError::TooLarge(MAX_DOCUMENT_BYTES)));
        }
        let mut bytes = Vec::new();
        self.read(name)?
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(error.into()))?;
        Ok(bytes)
    }
}

/// Opens the archive as a seekable, uncompressed file. If it is compressed or a pipe, its content is first
/// copied into a temporary file.
fn open_uncompressed(
    path: &Path,
    scratch: &Path,
    limits: UnpackLimits,
) -> Result<File, UnpackError> {
    let mut file = File::open(path)?;
    let is_file = file.metadata()?.is_file();
    if is_file {
        let mut start = [0; 4];
        let length = file.read(&mut start)?;
        file.seek(SeekFrom::Start(0))?;
        if packing(&start[..length]) == Compression::None {
            return Ok(file);
        }
    }
    let mut whole = tempfile::tempfile_in(scratch)?;
    // A separate budget: the content is charged again when the layers are unpacked.
    io::copy(&mut unpacked(file, &UnpackBudget::new(limits))?, &mut whole)?;
    whole.seek(SeekFrom::Start(0))?;
    Ok(whole)
}

fn index_members(mut file: &File) -> Result<HashMap<String, Member>, UnpackError> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(0))?;
    let mut entries = TarReader::new(BufReader::new(file));
    let mut by_name = HashMap::new();
    while let Some(entry) = entries.next_entry()? {
        if by_name.len() >= MAX_MEMBERS {
            return Err(UnpackError::TooMany(MAX_MEMBERS as u64));
        }
        let name = String::from_utf8(entry.name).ok();
        let name = name.as_deref().and_then(normalize_name);
        let offset = entries.offset();
        let member = match entry.kind {
            TarEntryKind::File {
                pieces: Some(_), ..
            } => {
                return Err(UnpackError::Unsupported(
                    "has a sparse file in place of a blob",
                ));
            }
            TarEntryKind::File { real_size, .. } => {
                if offset.checked_add(real_size).is_none_or(|end| end > length) {
                    return Err(UnpackError::Malformed("it is cut off"));
                }
                Some(Member::File {
                    offset,
                    size: real_size,
                })
            }
            TarEntryKind::Symlink => resolve_link(name.as_deref(), &entry.link, true),
            TarEntryKind::HardLink => resolve_link(name.as_deref(), &entry.link, false),
            TarEntryKind::Folder | TarEntryKind::Special => None,
        };
        entries.skip_content()?;
        if let (Some(name), Some(member)) = (name, member) {
            by_name.insert(name, member);
        }
    }
    if by_name.is_empty() {
        Err(UnpackError::Malformed("there is nothing in it"))
    } else {
        Ok(by_name)
    }
}

/// The target of a link, relative to the top of the archive.
fn resolve_link(name: Option<&str>, link: &[u8], is_relative: bool) -> Option<Member> {
    let link = std::str::from_utf8(link).ok()?;
    let from = if is_relative {
        Path::new(name?).parent()?.join(link)
    } else {
        PathBuf::from(link)
    };
    normalize_name(from.to_str()?).map(Member::Link)
}

/// Resolves `.` and `..` in a name. `None` if the name leads out of the archive.
fn normalize_name(name: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(name).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::ParentDir => drop(parts.pop()?),
            Component::CurDir => {}
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(parts.join("/"))
}
