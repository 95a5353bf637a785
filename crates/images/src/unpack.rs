//! Unpacks tar streams into a new root. The streams are untrusted: names resolve only inside the root, sizes
//! and counts are limited, setuid and setgid bits are dropped.
//!
//! [`apply`] is the entry point. Only [`tree::Tree`] touches files. [`entries::Entries`] reads headers, and
//! [`budget`] enforces limits.

pub(crate) mod budget;
pub(crate) mod entries;
mod flaw;
mod folder;
mod pax;
mod target;
pub(crate) mod tree;

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use self::budget::Budget;
use self::entries::{Entries, Entry, Kind};
pub use self::flaw::Flaw;
use self::target::Target;
use self::tree::Tree;

/// The prefix of an entry that removes a name of the layers below.
const WHITEOUT: &[u8] = b".wh.";
/// An entry that removes everything in its folder that comes from the layers below.
const OPAQUE: &[u8] = b".wh..wh..opq";

/// How a stream is to be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// A layer over others; whiteouts remove entries of the layers below.
    Layer,
    /// A whole root, without whiteouts.
    Whole,
}

/// Unpacks a stream over the existing tree. Reads the stream to its end.
pub(crate) fn apply(
    stream: impl Read,
    meaning: Meaning,
    tree: &mut Tree,
    budget: &mut Budget,
) -> Result<(), Flaw> {
    tree.begin_layer();
    let mut entries = Entries::new(stream);
    while let Some(entry) = entries.next_entry()? {
        budget.charge_entry()?;
        let name = String::from_utf8_lossy(&entry.name).into_owned();
        place(&mut entries, entry, meaning, tree, budget).map_err(|flaw| flaw.of(&name))?;
    }
    // The digest covers the remaining bytes too.
    entries.drain()?;
    tree.end_layer();
    Ok(())
}

fn place<R: Read>(
    entries: &mut Entries<R>,
    entry: Entry,
    meaning: Meaning,
    tree: &mut Tree,
    budget: &mut Budget,
) -> Result<(), Flaw> {
    let Some(target) = Target::parse(&entry.name)? else {
        return match entry.kind {
            Kind::Folder => tree.root_mode(entry.mode),
            _ => Err(Flaw::Name("is the root itself and not a folder")),
        };
    };
    let last = target.last.as_bytes();
    if meaning == Meaning::Layer && last.starts_with(WHITEOUT) {
        if last == OPAQUE {
            return tree.hide_all(&target.parent);
        }
        let hidden = OsStr::from_bytes(&last[WHITEOUT.len()..]);
        let is_name = !matches!(hidden.as_bytes(), b"" | b"." | b"..");
        return match is_name {
            // `.wh..wh.` names are private to the tool that made the layer.
            true if hidden.as_bytes().starts_with(WHITEOUT) => Ok(()),
            true => tree.hide(&target.parent, hidden),
            false => Err(Flaw::Name("is a whiteout without a name")),
        };
    }
    match entry.kind {
        Kind::Folder => tree.folder(&target, entry.mode, entry.mtime),
        Kind::File { real_size, pieces } => {
            budget.charge_size(real_size, entries.unread())?;
            let mut file = tree.file(&target)?;
            match pieces {
                None => file.fill(entries.content(), real_size)?,
                Some(pieces) => file.fill_pieces(entries.content(), &pieces, real_size)?,
            }
            file.finish(entry.mode, entry.mtime)
        }
        Kind::Symlink => tree.symlink(&target, &entry.link, entry.mtime),
        Kind::HardLink => {
            let source = Target::parse(&entry.link)
                .map_err(|_| Flaw::Link("leads out of the root"))?
                .ok_or(Flaw::Link("points to the root itself"))?;
            tree.hard_link(&target, &source)
        }
        Kind::Special => {
            tree.skip();
            Ok(())
        }
    }
}
