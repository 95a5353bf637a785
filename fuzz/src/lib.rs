//! Parts that several fuzz targets share: bytes in pieces, and a folder that must not be left.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

/// Splits bytes into pieces of these lengths, none of them empty. The last piece has the rest.
pub fn split<'a>(mut bytes: &'a [u8], lengths: &[u16]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    for length in lengths {
        if bytes.is_empty() {
            return pieces;
        }
        let (piece, rest) = bytes.split_at(usize::from(*length).clamp(1, bytes.len()));
        pieces.push(piece);
        bytes = rest;
    }
    if !bytes.is_empty() {
        pieces.push(bytes);
    }
    pieces
}

/// The content of [`Playground::outside`].
pub const CANARY: &str = "must not be read or changed by any input";

/// A folder for the code under test, beside a file that the code must not read or change.
#[derive(Debug)]
pub struct Playground {
    home: TempDir,
    canary: CanaryState,
}

type CanaryState = (u64, u64, u32, i64, i64);

impl Playground {
    pub fn new() -> Self {
        let home = tempfile::tempdir().expect("there is a writable temporary folder");
        for name in ["inside", "outside"] {
            fs::create_dir(home.path().join(name)).expect("the folder is new");
        }
        fs::write(home.path().join("outside/canary"), CANARY).expect("the file is new");
        let canary = canary_state(home.path());
        Self { home, canary }
    }

    /// The folder for the code under test.
    pub fn inside(&self) -> PathBuf {
        self.home.path().join("inside")
    }

    /// The file that must stay as it is.
    pub fn outside(&self) -> PathBuf {
        self.home.path().join("outside/canary")
    }

    /// Asserts that nothing beside the folder was created, removed or changed.
    pub fn assert_outside_unchanged(&self) {
        let count = |folder: &Path| fs::read_dir(folder).map(Iterator::count).unwrap_or(0);
        assert_eq!(count(self.home.path()), 2);
        assert_eq!(count(&self.home.path().join("outside")), 1);
        assert_eq!(canary_state(self.home.path()), self.canary);
    }

    /// Everything in the folder, by path: its mode, and the content of a file or link.
    pub fn contents(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let mut found = BTreeMap::new();
        let mut queue = vec![PathBuf::new()];
        while let Some(folder) = queue.pop() {
            let entries = fs::read_dir(self.inside().join(&folder));
            for entry in entries.expect("the code under test leaves folders readable") {
                let name = entry.expect("the folder does not change").file_name();
                let path = folder.join(name);
                let absolute = self.inside().join(&path);
                let about = metadata(&absolute);
                let content = if about.is_dir() {
                    queue.push(path.clone());
                    Vec::new()
                } else if about.is_symlink() {
                    let target = fs::read_link(&absolute).expect("it is a link");
                    target.as_os_str().as_bytes().to_vec()
                } else {
                    assert!(about.is_file(), "{path:?} is a special file");
                    fs::read(&absolute).expect("the code under test leaves files readable")
                };
                found.insert(path, (about.mode(), content));
            }
        }
        found
    }
}

impl Default for Playground {
    fn default() -> Self {
        Self::new()
    }
}

fn canary_state(home: &Path) -> CanaryState {
    let about = metadata(&home.join("outside/canary"));
    let (inode, links) = (about.ino(), about.nlink());
    (
        inode,
        links,
        about.mode(),
        about.ctime(),
        about.ctime_nsec(),
    )
}

fn metadata(path: &Path) -> Metadata {
    fs::symlink_metadata(path).expect("the path was just listed or created")
}
