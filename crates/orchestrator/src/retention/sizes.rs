//! How much room a job's folder takes up; and the size of a whole job, kept in its folder.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::tree::{Tree, Visit};

/// In the job's folder: what was measured, and the bytes.
const KEPT: &str = "bytes";

/// Names that are counted; what is beyond is not.
const MOST: u64 = 2_000_000;

/// As long as this is the same, an ended job has the same size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version {
    /// Of the job's record.
    pub(super) revision: u64,
    /// How many its session has: they go when others need their room.
    pub(super) checkpoints: u64,
}

/// Bytes that a folder takes up on disk; none if it is not there.
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

/// Keeps a job's size in its folder. Without it the next round measures again.
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

/// The size that was kept for that version.
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
