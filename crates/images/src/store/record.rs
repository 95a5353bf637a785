//! The JSON files of the store, written atomically.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::ImageError;

/// Where an image came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImageOrigin {
    /// Built here.
    Recipe {
        /// The suite that it was built on, such as `debian:bookworm`.
        from: String,
        /// Of the recipe and its files.
        recipe: Digest,
    },
    /// Imported from a file.
    Archive {
        /// The image's name in the archive.
        reference: Option<String>,
    },
    /// Pulled.
    Registry { reference: String, manifest: Digest },
}

/// The image that a name refers to.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct NameRecord {
    pub(super) digest: Digest,
    pub(super) origin: ImageOrigin,
    pub(super) named: Timestamp,
}

/// The metadata of a root.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct RootRecord {
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    pub(super) env: Vec<(String, String)>,
}

/// `None` if there is no such file.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, ImageError> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = path.to_owned();
            return Err(ImageError::ReadTree { path, source });
        }
    };
    let parsed = serde_json::from_slice(&bytes);
    parsed
        .map(Some)
        .map_err(|source| ImageError::ParseDocument {
            what: path.display().to_string(),
            source,
        })
}

pub(crate) fn write(path: &Path, value: &impl Serialize) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // Image names do not begin with a dot, so a temporary file is never taken for one.
    let mut draft = tempfile::Builder::new()
        .prefix(".draft-")
        .tempfile_in(folder)?;
    draft.write_all(&serde_json::to_vec_pretty(value)?)?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(())
}
