//! The disk usage of a job's folder, and the cached size of a whole job.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::tree::{Tree, Visit};

/// File in the job's folder: the version that was measured, and the bytes.
const KEPT: &str = "bytes";

/// Entries that are counted; further ones are ignored.
const MOST: u64 = 2_000_000;

/// An ended job has the same size while this is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    /// Revision of the job's record.
    pub(super) revision: u64,
    /// Number of the session's checkpoints, which are pruned when space is needed.
    pub(super) checkpoints: u64,
}

/// Disk usage of a folder in bytes; 0 if it does not exist.
pub(super) fn measure(folder: &Path) -> io::Result<u64> {
    let tree = match Tree::open(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        tree => tree?,
    };
    let mut blocks: u64 = 0;
    tree.walk(MOST, |visit| {
        let stat = match &visit {
            Visit::Folder { stat, .. } => Some(*stat),
            Visit::Leaf(leaf) => Some(leaf.stat),
            Visit::Closed { .. } => None,
        };
        let taken = stat.map_or(0, |stat| u64::try_from(stat.st_blocks).unwrap_or(0));
        blocks = blocks.saturating_add(taken);
        ControlFlow::Continue(())
    })?;
    Ok(blocks.saturating_mul(512))
}

/// Caches a job's size in its folder. On failure the next round measures again.
pub(super) fn keep(folder: &Path, version: Version, bytes: u64) {
    let Version {
        revision,
        checkpoints,
    } = version;
    let _ = fs::write(
        folder.join(KEPT),
        format!("{revision} {checkpoints} {bytes}"),
    );
}

/// The cached size of that version.
pub(super) fn recall(folder: &Path, version: Version) -> Option<u64> {
    let text = fs::read_to_string(folder.join(KEPT)).ok()?;
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
