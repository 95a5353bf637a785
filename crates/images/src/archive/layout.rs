//! The OCI image layout: `index.json` names manifests, and everything else is a blob named by its digest.

use super::members::ArchiveMembers;
use super::{SelectedImage, choose_image};
use crate::documents::{self, Descriptor, ImageConfig, ImageIndex, ImageManifest};
use crate::error::ImageError;
use crate::layers::{Layer, UnpackPlan};

/// The annotation in which `skopeo` and others store an image's name.
const REF_NAME_ANNOTATION: &str = "org.opencontainers.image.ref.name";
/// The annotation in which `docker save` stores an image's full name.
const CONTAINERD_NAME_ANNOTATION: &str = "io.containerd.image.name";

/// How deep indexes may be nested.
const MAX_INDEX_DEPTH: usize = 4;

pub(super) fn find(
    members: &ArchiveMembers,
    wanted: Option<&str>,
) -> Result<SelectedImage, ImageError> {
    let index: ImageIndex = documents::parse_json("index.json", &members.document("index.json")?)?;
    let names = |descriptor: &Descriptor| {
        let names = [CONTAINERD_NAME_ANNOTATION, REF_NAME_ANNOTATION]
            .map(|key| descriptor.annotations.get(key).cloned());
        names.into_iter().flatten().collect()
    };
    let all = index.manifests.into_iter().map(|one| (names(&one), one));
    let (reference, mut descriptor) = match all.collect::<Vec<_>>() {
        // One image for several platforms, or several names of one image.
        all if wanted.is_none() && is_one_image(&all) => {
            let (mut names, platforms): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let name = names.swap_remove(0).into_iter().next();
            (name, documents::select_for_host(platforms)?)
        }
        all => choose_image(all, wanted)?,
    };
    for _ in 0..MAX_INDEX_DEPTH {
        let bytes = blob(members, &descriptor)?;
        if !documents::is_index(&descriptor, &bytes) {
            let manifest: ImageManifest = documents::parse_json("the manifest", &bytes)?;
            let plan = plan(members, &manifest)?;
            return Ok(SelectedImage { plan, reference });
        }
        let index: ImageIndex = documents::parse_json("an index", &bytes)?;
        descriptor = documents::select_for_host(index.manifests)?;
    }
    Err(ImageError::Unusable(
        "its index is nested too deep".to_owned(),
    ))
}

fn is_one_image(all: &[(Vec<String>, Descriptor)]) -> bool {
    let Some((names, first)) = all.first() else {
        return false;
    };
    let is_same = |(_, one): &(_, Descriptor)| one.digest == first.digest;
    let is_variant =
        |(other, one): &(Vec<String>, Descriptor)| other == names && one.platform.is_some();
    all.iter().all(is_same) || all.iter().all(is_variant)
}

fn plan(members: &ArchiveMembers, manifest: &ImageManifest) -> Result<UnpackPlan, ImageError> {
    manifest.check()?;
    let bytes = blob(members, &manifest.config)?;
    let config: ImageConfig = documents::parse_json("the configuration", &bytes)?;
    let layers = manifest.layers.iter().map(|layer| Layer {
        source: blob_path(layer),
        blob: Some((layer.digest.clone(), layer.size)),
    });
    UnpackPlan::new(config, manifest.config.digest.clone(), layers.collect())
}

/// Reads a small blob and checks its digest.
fn blob(members: &ArchiveMembers, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
    let bytes = members.document(&blob_path(descriptor))?;
    descriptor.check(&bytes)?;
    Ok(bytes)
}

fn blob_path(descriptor: &Descriptor) -> String {
    format!("blobs/sha256/{}", descriptor.digest.hex())
}
