//! Lists the metadata of everything below a folder, so that the host can detect changes without reading file
//! contents.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::rc::Rc;

use link::Stream;
use link::request::{ByteString, FileKind, GuestResult, SurveyEntry, Truncated};

use crate::files::kind_of;
use crate::listing::{BatchSender, batches};
use crate::refusal::PathContext;
use crate::session::Guest;
use crate::walk::{SkipPolicy, Walk};

pub(crate) async fn survey(guest: &Rc<Guest>, path: ByteString, limit: u64, stream: Stream) {
    let root = guest.resolve(Some(&path));
    batches(guest, stream, move |out| walk(&root, limit, out)).await;
}

fn walk(root: &Path, limit: u64, out: &mut BatchSender<SurveyEntry>) -> GuestResult<Truncated> {
    fs::read_dir(root).on("survey", root)?;
    for found in Walk::new(root, u32::MAX, SkipPolicy::Nothing) {
        // Skip entries that vanished meanwhile.
        let Ok(surveyed) = describe(root, &found.path) else {
            continue;
        };
        if out.sent >= limit {
            return Ok(Truncated(true));
        }
        if out.push(surveyed).is_break() {
            break;
        }
    }
    Ok(Truncated(false))
}

fn describe(root: &Path, path: &Path) -> std::io::Result<SurveyEntry> {
    let metadata = fs::symlink_metadata(path)?;
    let kind = kind_of(metadata.file_type());
    Ok(SurveyEntry {
        path: ByteString::from(path.strip_prefix(root).unwrap_or(path)),
        kind,
        mode: metadata.mode() & 0o7777,
        size: metadata.len(),
        inode: metadata.ino(),
        modified_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        changed_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
        target: match kind {
            FileKind::Symlink => Some(ByteString::from(fs::read_link(path)?)),
            _ => None,
        },
    })
}

/// Saturates, because commands can set any time.
fn nanoseconds(seconds: i64, nanoseconds: i64) -> i64 {
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(nanoseconds)
}
