//! Image archives, as `docker save`, `podman save`, `skopeo` and others write them.
//!
//! Both forms are one tar with small JSON files and blobs in it, and both are read into the same
//! [`crate::layers::UnpackPlan`]. An archive is untrusted: everything that has a digest is checked against it.
//! Entry point: [`read`].

mod docker;
mod layout;
mod members;

use std::io::Read;
use std::path::Path;

use self::members::ArchiveMembers;
use crate::error::ImageError;
use crate::layers::{self, BlobReader, UnpackPlan};
use crate::unpack::budget::UnpackLimits;

/// The largest file that is read into memory.
const MAX_DOCUMENT_BYTES: u64 = 8 << 20;

/// An indexed archive: the selected image, and where its layers are.
pub(crate) struct ImageArchive {
    members: ArchiveMembers,
    pub(crate) plan: UnpackPlan,
    /// The image's name in the archive.
    pub(crate) reference: Option<String>,
}

/// Indexes an archive and selects an image. A compressed archive is decompressed into the scratch folder.
/// `wanted` selects among several images by their name in the archive.
pub(crate) fn read(
    path: &Path,
    scratch: &Path,
    wanted: Option<&str>,
    limits: UnpackLimits,
) -> Result<ImageArchive, ImageError> {
    let members = ArchiveMembers::open(path, scratch, limits)?;
    // Newer archives have both forms. An OCI layout is preferred because it names blobs by digest.
    let found = match members.has("oci-layout") && members.has("index.json") {
        true => layout::find(&members, wanted)?,
        false if members.has("manifest.json") => docker::find(&members, wanted)?,
        false => return Err(ImageError::NotAnArchive(path.to_owned())),
    };
    Ok(ImageArchive {
        members,
        plan: found.plan,
        reference: found.reference,
    })
}

/// The selected image of an archive.
struct SelectedImage {
    plan: UnpackPlan,
    reference: Option<String>,
}

impl layers::BlobSource for ImageArchive {
    fn open(&self, source: &str) -> Result<BlobReader<'_>, ImageError> {
        let reader = self.members.read(source)?;
        Ok(Box::new(reader) as Box<dyn Read + '_>)
    }
}

/// Selects the `wanted` image, or the only one.
fn choose_image<T>(
    all: Vec<(Vec<String>, T)>,
    wanted: Option<&str>,
) -> Result<(Option<String>, T), ImageError> {
    let names = || {
        let names = all.iter().flat_map(|(names, _)| names.iter().cloned());
        names.take(20).collect::<Vec<_>>()
    };
    let index = match wanted {
        Some(wanted) => all
            .iter()
            .position(|(names, _)| names.iter().any(|name| name == wanted)),
        None if all.len() > 1 => return Err(ImageError::SeveralImages { names: names() }),
        None => Some(0).filter(|_| !all.is_empty()),
    };
    let Some(index) = index else {
        return Err(ImageError::NoSuchReference {
            wanted: wanted.unwrap_or_default().to_owned(),
            names: names(),
        });
    };
    let (names, chosen) = all
        .into_iter()
        .nth(index)
        .expect("the index was found in the list");
    let name = match wanted {
        Some(wanted) => Some(wanted.to_owned()),
        None => names.into_iter().next(),
    };
    Ok((name, chosen))
}
