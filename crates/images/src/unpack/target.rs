//! Names in archives, taken apart. A name that could lead out of the root does not get further than
//! this.
//!
//! Entry type: [`Target`].

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use super::flaw::Flaw;

/// The longest name that Linux takes for one part.
const MAX_PART: usize = 255;
/// The longest path, with room for the folder that the root stands in.
const MAX_PATH: usize = 3000;
/// How deep folders may be in one another.
pub(super) const MAX_DEPTH: usize = 200;
/// A name in an archive, taken apart: relative to the root, without `.` and `..`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) parent: PathBuf,
    pub(crate) last: OsString,
}

impl Target {
    /// Nothing for the root itself. A name that begins with `/` is meant from the root.
    pub(crate) fn parse(name: &[u8]) -> Result<Option<Self>, Flaw> {
        if name.contains(&0) {
            return Err(Flaw::Name("has a NUL in it"));
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
