//! Packs a workspace into a zip. Links are left out; size, file count and compression ratio are
//! bounded.
//!
//! The workspace is untrusted and may change meanwhile. What cannot be packed is left out and
//! listed, and the zip is always valid. It is written in one pass, either into a file ([`pack`]) or
//! to a reader ([`stream()`]).

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

use self::packer::{PackResult, Packer};
pub(crate) use self::stream::stream;
use crate::tree::UntrustedTree;

/// Limits of a zip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZipLimits {
    /// Bytes of the zip.
    pub(crate) packed: u64,
    /// Bytes of all files, unpacked.
    pub(crate) unpacked: u64,
    /// Entries of any kind.
    pub(crate) files: u64,
    /// Maximum ratio of unpacked to packed size; applies to large contents only.
    pub(crate) ratio: u64,
}

impl ZipLimits {
    /// Default limits for a zip of at most this many bytes.
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
    /// Reading the workspace or writing the zip failed.
    #[error("cannot pack the workspace")]
    Io(#[from] io::Error),
}

const WRITE_BUFFER_BYTES: usize = 256 << 10;

/// Packs a workspace into a file that appears atomically. Blocks.
pub(crate) fn pack(
    workspace: &Path,
    output: &Path,
    bounds: ZipLimits,
) -> Result<Artifact, PackError> {
    let tree = UntrustedTree::open(workspace)?;
    remove_leftovers(output)?;
    let partial = PartialZip::create(output)?;
    let writer = BufWriter::with_capacity(WRITE_BUFFER_BYTES, partial.file.try_clone()?);
    let PackResult {
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

/// A temporary file next to the output. Removed on drop unless it is published.
#[derive(Debug)]
struct PartialZip {
    path: PathBuf,
    file: File,
}

impl PartialZip {
    fn create(output: &Path) -> io::Result<Self> {
        let mut name = output.as_os_str().to_owned();
        name.push(format!(".{:016x}{PARTIAL_SUFFIX}", fastrand::u64(..)));
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

impl Drop for PartialZip {
    fn drop(&mut self) {
        // Fails after `publish`, which has moved the file.
        let _ = fs::remove_file(&self.path);
    }
}

const PARTIAL_SUFFIX: &str = ".partial";

/// Removes temporary files of a server that died while packing.
fn remove_leftovers(output: &Path) -> io::Result<()> {
    let (Some(folder), Some(name)) = (output.parent(), output.file_name()) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.file_name();
        let found = found.as_encoded_bytes();
        if found.starts_with(name.as_encoded_bytes()) && found.ends_with(PARTIAL_SUFFIX.as_bytes())
        {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}
