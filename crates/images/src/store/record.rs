//! The small JSON files of the store, written whole or not at all.

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
pub enum Origin {
    /// Built here.
    Recipe {
        /// The suite that it was built on, such as `debian:bookworm`.
        from: String,
        /// Of the recipe and its files.
        recipe: Digest,
    },
    /// Taken out of a file.
    Archive {
        /// As the archive calls it.
        reference: Option<String>,
    },
    /// Fetched.
    Registry { reference: String, manifest: Digest },
}

/// What a name means.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Named {
    pub(super) digest: Digest,
    pub(super) origin: Origin,
    pub(super) named: Timestamp,
}

/// What is known of a root.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) bytes: u64,
    pub(super) entries: u64,
    pub(super) skipped: u64,
    pub(super) env: Vec<(String, String)>,
}

/// Nothing if there is no such file.
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
    // A name that begins with a dot is no image's.
    let mut draft = tempfile::Builder::new()
        .prefix(".draft-")
        .tempfile_in(folder)?;
    draft.write_all(&serde_json::to_vec_pretty(value)?)?;
    draft.as_file().sync_all()?;
    draft.persist(path).map_err(|error| error.error)?;
    Ok(())
}
