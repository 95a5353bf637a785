//! The image of a spec as a read-only disk for machines, made once and cached.

use std::path::{Path, PathBuf};

use images::Digest;
use protocol::Backend;

use super::step;
use crate::backends::confined_guest::own_folder;
use crate::error::SandboxError;
use crate::spec::{RootSpec, SandboxSpec};

/// The disk; made if missing. Reading a whole image is slow, so it runs on a blocking thread.
pub(crate) async fn disk(spec: &SandboxSpec, backend: Backend) -> Result<PathBuf, SandboxError> {
    let RootSpec::Image(image) = &spec.root else {
        return Err(crate::backends::lacks_image(backend));
    };
    let (cache, image) = (spec.provisions.cache.clone(), image.clone());
    let made = tokio::task::spawn_blocking(move || make(&cache, &image, backend)).await;
    made.map_err(|error| step(backend, "make a disk of the image", error))?
}

fn make(cache: &Path, image: &Path, backend: Backend) -> Result<PathBuf, SandboxError> {
    if !image.is_dir() {
        return Err(SandboxError::Image {
            path: image.to_owned(),
            source: std::io::ErrorKind::NotADirectory.into(),
        });
    }
    let folder = own_folder(cache)
        .and_then(|_| own_folder(&cache.join("disks")))
        .map_err(|error| step(backend, "use the folder of disks", error))?;
    images::build_disk(&folder, image, stored_image_digest(image).as_ref())
        .map_err(|error| step(backend, "make a disk of the image", error))
}

/// The digest of an image in an image store, from its path. Such an image never changes, so its
/// files need not be scanned at every start.
fn stored_image_digest(image: &Path) -> Option<Digest> {
    let place = image.parent()?;
    let is_stored = image.ends_with("root")
        && place.parent()?.ends_with("roots")
        && place.join("about.json").is_file();
    let digits = is_stored.then(|| place.file_name())??.to_str()?;
    format!("sha256:{digits}").parse().ok()
}
