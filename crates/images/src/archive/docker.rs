//! The older archive form, of `docker save`: `manifest.json` names a configuration and layers. The
//! configuration lists the layers' digests, and its file name is its own digest.

use serde::Deserialize;

use super::members::ArchiveMembers;
use super::{SelectedImage, choose_image};
use crate::digest::Digest;
use crate::documents::{self, ImageConfig};
use crate::error::ImageError;
use crate::layers::{Layer, UnpackPlan};
use crate::unpack::UnpackError;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ManifestItem {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

pub(super) fn find(
    members: &ArchiveMembers,
    wanted: Option<&str>,
) -> Result<SelectedImage, ImageError> {
    let items: Vec<ManifestItem> =
        documents::parse_json("manifest.json", &members.document("manifest.json")?)?;
    let all = items
        .into_iter()
        .map(|mut item| (item.repo_tags.take().unwrap_or_default(), item))
        .collect();
    let (reference, item) = choose_image(all, wanted)?;
    let bytes = members.document(&item.config)?;
    let digest = Digest::of(&bytes);
    // `<hex>.json`, or `blobs/sha256/<hex>`.
    let file = item.config.rsplit('/').next().unwrap_or_default();
    let promised = Digest::from_hex(file.strip_suffix(".json").unwrap_or(file));
    if let Some(expected) = promised
        && expected != digest
    {
        return Err(ImageError::Refused {
            what: format!("the configuration `{}`", item.config),
            source: UnpackError::Digest {
                expected,
                found: digest,
            },
        });
    }
    let config: ImageConfig = documents::parse_json(&item.config, &bytes)?;
    let layers = item
        .layers
        .into_iter()
        .map(|source| Layer { source, blob: None });
    let plan = UnpackPlan::new(config, digest, layers.collect())?;
    Ok(SelectedImage { plan, reference })
}
