//! Parses and checks names in archives. Refuses names that could lead out of the root.
//!
//! Entry type: [`Target`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::flaw::Flaw;

/// Linux's limit for one component of a path.
const MAX_PART: usize = 255;
/// Linux's limit for paths, less some room for the path of the root itself.
const MAX_PATH: usize = 3000;
/// How deep folders may be nested.
pub(super) const MAX_DEPTH: usize = 200;
/// A parsed name, relative to the root, without `.` and `..`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) parent: PathBuf,
    pub(crate) last: OsString,
}

impl Target {
    /// `None` for the root itself. A leading `/` means the root of the image.
    pub(crate) fn parse(name: &[u8]) -> Result<Option<Self>, Flaw> {
        if name.contains(&0) {
            return Err(Flaw::Name("contains a NUL byte"));
        }
        if name.len() > MAX_PATH {
            return Err(Flaw::Name("is too long"));
        }
        let mut parent = PathBuf::new();
        let mut depth = 0;
        for part in Path::new(OsStr::from_bytes(name)).components() {
            match part {
                Component::Normal(part) if part.len() > MAX_PART => {
                    return Err(Flaw::Name("is too long"));
                }
                Component::Normal(part) => {
                    parent.push(part);
                    depth += 1;
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
                Component::ParentDir => return Err(Flaw::Name("has `..` in it")),
            }
        }
        if depth > MAX_DEPTH {
            return Err(Flaw::Name("is too deep"));
        }
        let Some(last) = parent.file_name().map(OsStr::to_owned) else {
            return Ok(None);
        };
        parent.pop();
        Ok(Some(Self { parent, last }))
    }
}
