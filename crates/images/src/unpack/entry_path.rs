//! Parses and checks names in archives. Refuses names that could lead out of the root.
//!
//! Entry type: [`EntryPath`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::error::UnpackError;

/// Linux's limit for one component of a path.
const MAX_NAME_BYTES: usize = 255;
/// Linux's limit for paths, less some room for the path of the root itself.
const MAX_PATH_BYTES: usize = 3000;
/// How deep folders may be nested.
pub(super) const MAX_FOLDER_DEPTH: usize = 200;
/// A parsed name, relative to the root, without `.` and `..`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct EntryPath {
    pub(crate) parent: PathBuf,
    pub(crate) last: OsString,
}

impl EntryPath {
    /// `None` for the root itself. A leading `/` means the root of the image.
    pub(crate) fn parse(name: &[u8]) -> Result<Option<Self>, UnpackError> {
        if name.contains(&0) {
            return Err(UnpackError::Name("contains a NUL byte"));
        }
        if name.len() > MAX_PATH_BYTES {
            return Err(UnpackError::Name("is too long"));
        }
        let mut parent = PathBuf::new();
        let mut depth = 0;
        for part in Path::new(OsStr::from_bytes(name)).components() {
            match part {
                Component::Normal(part) if part.len() > MAX_NAME_BYTES => {
                    return Err(UnpackError::Name("is too long"));
                }
                Component::Normal(part) => {
                    parent.push(part);
                    depth += 1;
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => return Err(UnpackError::Name("has `..` in it")),
            }
        }
        if depth > MAX_FOLDER_DEPTH {
            return Err(UnpackError::Name("is too deep"));
        }
        let Some(last) = parent.file_name().map(OsStr::to_owned) else {
            return Ok(None);
        };
        parent.pop();
        Ok(Some(Self { parent, last }))
    }
}
