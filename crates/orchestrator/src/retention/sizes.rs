//! The disk usage of a job's folder, and the cached size of a whole job.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::tree::{TreeVisit, UntrustedTree};

/// File in the job's folder: the version that was measured, and the bytes.
const SIZE_FILE: &str = "bytes";

/// Entries that are counted; further ones are ignored.
const MAX_COUNTED_NAMES: u64 = 2_000_000;

/// An ended job has the same size while this is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SizeVersion {
    /// Revision of the job's record.
    pub(super) revision: u64,
    /// Number of the session's checkpoints, which are pruned when space is needed.
    pub(super) checkpoints: u64,
}

/// Disk usage of a folder in bytes; 0 if it does not exist.
pub(super) fn measure(folder: &Path) -> io::Result<u64> {
    let tree = match UntrustedTree::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        tree => tree?,
    };
    let mut blocks: u64 = 0;
    tree.walk(MAX_COUNTED_NAMES, |visit| {
        let stat = match &visit {
            TreeVisit::Folder { stat, .. } => Some(*stat),
            TreeVisit::Leaf(leaf) => Some(leaf.stat),
            TreeVisit::Closed { .. } => None,
        };
        let taken = stat.map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0));
        blocks = blocks.saturating_add(taken);
        ControlFlow::Continue(())
    })?;
    Ok(blocks.saturating_mul(512))
}

/// Caches a job's size in its folder. On failure the next round measures again.
pub(super) fn store_size(folder: &Path, version: SizeVersion, bytes: u64) {
    let SizeVersion {
        revision,
        checkpoints,
    } = version;
    let _ = fs::write(
        folder.join(SIZE_FILE),
        format!("{revision} {checkpoints} {bytes}"),
    );
}

/// The cached size of that version.
pub(super) fn load_size(folder: &Path, version: SizeVersion) -> Option<u64> {
    let text = fs::read_to_string(folder.join(SIZE_FILE)).ok()?;
    let numbers: Option<Vec<u64>> = text.split(' ').map(|number| number.parse().ok()).collect();
    match numbers?.as_slice() {
        [revision, checkpoints, bytes]
            if (*revision, *checkpoints) == (version.revision, version.checkpoints) =>
        {
            Some(*bytes)
        }
        _ => None,
    }
}
