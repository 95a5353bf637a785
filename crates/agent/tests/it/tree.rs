//! A snapshot of a whole workspace, byte for byte, for comparison.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TreeNode {
    Folder { mode: u32 },
    File { mode: u32, content: Vec<u8> },
    Link { target: PathBuf },
}

/// Every path below a folder, without times and owners.
pub(crate) fn tree(root: &Path) -> BTreeMap<PathBuf, TreeNode> {
    let mut nodes = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            let path = entry.path();
            let metadata = fs::symlink_metadata(&path).unwrap();
            let mode = metadata.permissions().mode() & 0o777;
            let node = if metadata.is_symlink() {
                TreeNode::Link {
                    target: fs::read_link(&path).unwrap(),
                }
            } else if metadata.is_dir() {
                folders.push(path.clone());
                TreeNode::Folder { mode }
            } else {
                TreeNode::File {
                    mode,
                    content: fs::read(&path).unwrap(),
                }
            };
            nodes.insert(path.strip_prefix(root).unwrap().to_owned(), node);
        }
    }
    nodes
}

/// Sets the mode of a file or folder.
pub(crate) fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}
