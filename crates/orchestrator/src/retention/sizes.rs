//! How much room a job's folder takes up, measured no more often than needed.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;

use crate::tree::{Tree, Visit};

/// In the job's folder: the revision of its record for which it was measured, and the bytes.
const KEPT: &str = "bytes";

/// Names that are counted; what is beyond is not.
const MOST: u64 = 2_000_000;

/// Bytes that a folder takes up on disk; none if it is not there. With a revision, the folder does
/// not change before that does, and is measured only once.
pub(super) fn measure(folder: &Path, revision: Option<u64>) -> io::Result<u64> {
    let kept = folder.join(KEPT);
    if let Some(bytes) = revision.and_then(|revision| recall(&kept, revision)) {
        return Ok(bytes);
    }
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
    let bytes = blocks.saturating_mul(512);
    if let Some(revision) = revision {
        // Without it the next round measures again.
        let _ = fs::write(&kept, format!("{revision} {bytes}"));
    }
    Ok(bytes)
}

fn recall(kept: &Path, revision: u64) -> Option<u64> {
    let text = fs::read_to_string(kept).ok()?;
    let (of, bytes) = text.split_once(' ')?;
    (of.parse() == Ok(revision)).then(|| bytes.parse().ok())?
}
