//! Packs a workspace into a zip: links are left out, sizes, counts and ratios have bounds.
//!
//! The workspace is not to be trusted and may change meanwhile: what cannot be packed is left out
//! and named, and the zip is whole whatever happens. Written in one pass without going back, into
//! a file ([`pack`]) or to whoever reads it ([`stream()`]).

mod entry;
mod left_out;
mod packer;
mod sink;
mod stream;
#[cfg(test)]
mod tests;
mod trial;

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use protocol::job::Artifact;

use self::packer::{Packed, Packer};
pub(crate) use self::stream::stream;
use crate::tree::Tree;

/// How much a zip may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Bytes of the zip.
    pub(crate) packed: u64,
    /// Bytes of all files in it.
    pub(crate) unpacked: u64,
    /// Files, folders and whatever else there is.
    pub(crate) files: u64,
    /// How many times larger than the zip the files may be, once they are large.
    pub(crate) ratio: u64,
}

impl Bounds {
    /// The usual bounds of a zip of at most so many bytes.
    pub(crate) fn of(largest_zip: u64) -> Self {
        Self {
            packed: largest_zip,
            unpacked: largest_zip.saturating_mul(8),
            files: 100_000,
            ratio: 100,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The workspace or the place for the zip.
    #[error("cannot pack the workspace")]
    Io(#[from] io::Error),
}

const WRITE_BUFFER: usize = 256 << 10;

/// Packs a workspace into a file that is whole when it appears. Blocks.
pub(crate) fn pack(workspace: &Path, output: &Path, bounds: Bounds) -> Result<Artifact, PackError> {
    let tree = Tree::open(workspace)?;
    remove_leftovers(output)?;
    let partial = Partial::create(output)?;
    let writer = BufWriter::with_capacity(WRITE_BUFFER, partial.file.try_clone()?);
    let Packed {
        files,
        left_out,
        bytes,
        sha256,
    } = Packer::new(writer, bounds).pack(&tree)?;
    partial.publish(output)?;
    Ok(Artifact {
        bytes,
        files,
        sha256,
        left_out,
    })
}

/// A file beside the output that goes with this value unless it is published.
#[derive(Debug)]
struct Partial {
    path: PathBuf,
    file: File,
}

impl Partial {
    fn create(output: &Path) -> io::Result<Self> {
        let mut name = output.as_os_str().to_owned();
        name.push(format!(".{:016x}{PARTIAL}", fastrand::u64(..)));
        let path = PathBuf::from(name);
        let mut options = OpenOptions::new();
        let file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Self { path, file })
    }

    fn publish(self, output: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::rename(&self.path, output)?;
        match output.parent() {
            Some(folder) => File::open(folder)?.sync_all(),
            None => Ok(()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After it was published there is none.
        let _ = fs::remove_file(&self.path);
    }
}

const PARTIAL: &str = ".partial";

/// Removes what a server that died while packing has left.
fn remove_leftovers(output: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (output.parent(), output.file_name()) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.file_name();
        let found = found.as_encoded_bytes();
        if found.starts_with(name.as_encoded_bytes()) && found.ends_with(PARTIAL.as_bytes()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
