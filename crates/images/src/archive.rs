//! Archives that hold an image: what `docker save`, `podman save`, `skopeo` and others write.
//!
//! Both forms are one tar with small JSON files and blobs in it, and both become the same
//! [`crate::layers::Plan`]. Nothing of an archive is believed: whatever has a digest is held against
//! it. Entry point: [`read`].

mod docker;
mod layout;
mod members;

use std::io::Read;
use std::path::Path;

use self::members::Members;
use crate::error::ImageError;
use crate::layers::{self, Opened, Plan};
use crate::unpack::budget::Limits;

/// The longest file that is read into memory.
const MAX_DOCUMENT: u64 = 8 << 20;

/// An archive that was looked through: the image in it, and where its layers are.
pub(crate) struct Archive {
    members: Members,
    pub(crate) plan: Plan,
    /// As the archive calls it.
    pub(crate) reference: Option<String>,
}

/// Looks through an archive. Whole archives that are packed are unpacked into the `scratch` folder;
/// `wanted` chooses among several images by the name that the archive has for each.
pub(crate) fn read(
    path: &Path,
    scratch: &Path,
    wanted: Option<&str>,
    limits: Limits,
) -> Result<Archive, ImageError> {
    let members = Members::open(path, scratch, limits)?;
    // A layout names blobs by digest, so it says more; newer archives are both at once.
    let found = match members.has("oci-layout") && members.has("index.json") {
        true => layout::find(&members, wanted)?,
        false if members.has("manifest.json") => docker::find(&members, wanted)?,
        false => return Err(ImageError::NotAnArchive(path.to_owned())),
    };
    Ok(Archive {
        members,
        plan: found.plan,
        reference: found.reference,
    })
}

/// An image in an archive.
struct Found {
    plan: Plan,
    reference: Option<String>,
}

impl layers::Blobs for Archive {
    fn open(&self, source: &str) -> Result<Opened<'_>, ImageError> {
        let reader = self.members.read(source)?;
        Ok(Box::new(reader) as Box<dyn Read + '_>)
    }
}

/// The one that is wanted, or the only one.
fn choose<T>(
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
