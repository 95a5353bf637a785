//! Unpacks tar streams into a new root. The streams are untrusted: names resolve only inside the root, sizes
//! and counts are limited, setuid and setgid bits are dropped.
//!
//! [`apply`] is the entry point. Only [`tree::RootTree`] touches files. [`entries::TarReader`] reads headers, and
//! [`budget`] enforces limits.

pub(crate) mod budget;
pub(crate) mod entries;
mod entry_path;
mod error;
mod folder;
mod pax;
pub(crate) mod tree;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use self::budget::UnpackBudget;
use self::entries::{TarEntry, TarEntryKind, TarReader};
use self::entry_path::EntryPath;
pub use self::error::UnpackError;
use self::tree::RootTree;

/// The prefix of an entry that removes a name of the layers below.
const WHITEOUT_PREFIX: &[u8] = b".wh.";
/// An entry that removes everything in its folder that comes from the layers below.
const OPAQUE_MARKER: &[u8] = b".wh..wh..opq";

/// How a stream is to be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TarContent {
    /// A layer over others; whiteouts remove entries of the layers below.
    Layer,
    /// A whole root, without whiteouts.
    Whole,
}

/// Unpacks a stream over the existing tree. Reads the stream to its end.
pub(crate) fn apply(
    stream: impl Read,
    meaning: TarContent,
    tree: &mut RootTree,
    budget: &mut UnpackBudget,
) -> Result<(), UnpackError> {
    tree.begin_layer();
    let mut entries = TarReader::new(stream);
    while let Some(entry) = entries.next_entry()? {
        budget.charge_entry()?;
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        apply_entry(&mut entries, entry, meaning, tree, budget).map_err(|flaw| flaw.of(&name))?;
    }
    // The digest covers the remaining bytes too.
    entries.drain()?;
    tree.end_layer();
    Ok(())
}

fn apply_entry<R: Read>(
    entries: &mut TarReader<R>,
    entry: TarEntry,
    meaning: TarContent,
    tree: &mut RootTree,
    budget: &mut UnpackBudget,
) -> Result<(), UnpackError> {
    let Some(target) = EntryPath::parse(&entry.name)? else {
        return match entry.kind {
            TarEntryKind::Folder => tree.set_root_mode(entry.mode),
            _ => Err(UnpackError::Name("is the root itself and not a folder")),
        };
    };
    let last = target.last.as_bytes();
    if meaning == TarContent::Layer && last.starts_with(WHITEOUT_PREFIX) {
        if last == OPAQUE_MARKER {
            return tree.remove_all_lower(&target.parent);
        }
        let hidden = OsStr::from_bytes(&last[WHITEOUT_PREFIX.len()..]);
        let is_name = !matches!(hidden.as_bytes(), b"" | b"." | b"..");
        return match is_name {
            // `.wh..wh.` names are private to the tool that made the layer.
            true if hidden.as_bytes().starts_with(WHITEOUT_PREFIX) => Ok(()),
            true => tree.hide(&target.parent, hidden),
            false => Err(UnpackError::Name("is a whiteout without a name")),
        };
    }
    match entry.kind {
        TarEntryKind::Folder => tree.folder(&target, entry.mode, entry.mtime),
        TarEntryKind::File { real_size, pieces } => {
            budget.charge_holes(real_size, entries.unread())?;
            let mut file = tree.file(&target)?;
            match pieces {
                None => file.fill(entries.content(), real_size)?,
                Some(pieces) => file.write_pieces(entries.content(), &pieces, real_size)?,
            }
            file.finish(entry.mode, entry.mtime)
        }
        TarEntryKind::Symlink => tree.symlink(&target, &entry.link, entry.mtime),
        TarEntryKind::HardLink => {
            let source = EntryPath::parse(&entry.link)
                .map_err(|_| UnpackError::Link("leads out of the root"))?
                .ok_or(UnpackError::Link("points to the root itself"))?;
            tree.hard_link(&target, &source)
        }
        TarEntryKind::Special => {
            tree.skip();
            Ok(())
        }
    }
}
