//! The names in a zip as a tree of folders and files. Detects clashes, and counts the new inodes of
//! each entry.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

/// Every folder and file, by parent id and name.
#[derive(Debug, Default)]
pub(super) struct ZipNames {
    nodes: HashMap<(u32, Box<str>), ZipNode>,
}

#[derive(Debug, Clone, Copy)]
struct ZipNode {
    id: u32,
    is_folder: bool,
}

/// A name that exists already, or has a file as its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NameClash;

const ROOT_ID: u32 = 0;

impl ZipNames {
    /// Adds a file or folder and its parents. Returns how many of them are new.
    pub(super) fn add(&mut self, parts: &[&str], is_folder: bool) -> Result<u64, NameClash> {
        let mut parent = ROOT_ID;
        let mut new = 0;
        for (index, part) in parts.iter().enumerate() {
            let is_last = index + 1 == parts.len();
            let is_folder = is_folder || !is_last;
            let next = u32::try_from(self.nodes.len() + 1).map_err(|_| NameClash)?;
            match self.nodes.entry((parent, (*part).into())) {
                Entry::Occupied(node) if node.get().is_folder && is_folder => {
                    parent = node.get().id;
                }
                Entry::Occupied(_) => return Err(NameClash),
                Entry::Vacant(entry) => {
                    entry.insert(ZipNode {
                        id: next,
                        is_folder,
                    });
                    parent = next;
                    new += 1;
                }
            }
        }
        Ok(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_counted_once_and_clashes_are_found() {
        let mut names = ZipNames::default();
        for (path, is_folder, expect) in [
            ("a", true, Ok(1)),
            ("a", true, Ok(0)),
            ("a/b/c", false, Ok(2)),
            ("a/b/d", false, Ok(1)),
            ("a/b/c", false, Err(NameClash)),
            ("a/b", false, Err(NameClash)),
            ("a/b/c", true, Err(NameClash)),
            ("a/b/c/d", false, Err(NameClash)),
            ("b/c", true, Ok(2)),
            ("", true, Ok(0)),
        ] {
            let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
            assert_eq!(names.add(&parts, is_folder), expect, "{path}");
        }
    }
}
