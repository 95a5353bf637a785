//! The OCI image layout: `index.json` names manifests, and everything else is a blob named by its digest.

use super::members::Members;
use super::{Found, choose};
use crate::documents::{self, Config, Descriptor, Index, Manifest};
use crate::error::ImageError;
use crate::layers::{Layer, Plan};

/// The annotation in which `skopeo` and others store an image's name.
const NAME: &str = "org.opencontainers.image.ref.name";
/// The annotation in which `docker save` stores an image's full name.
const FULL_NAME: &str = "io.containerd.image.name";

/// How deep indexes may be nested.
const MAX_NESTING: usize = 4;

pub(super) fn find(members: &Members, wanted: Option<&str>) -> Result<Found, ImageError> {
    let index: Index = documents::parse("index.json", &members.document("index.json")?)?;
    let names = |descriptor: &Descriptor| {
        let names = [FULL_NAME, NAME].map(|key| descriptor.annotations.get(key).cloned());
        names.into_iter().flatten().collect()
    };
    let all = index.manifests.into_iter().map(|one| (names(&one), one));
    let (reference, mut descriptor) = match all.collect::<Vec<_>>() {
        // One image for several platforms, or several names of one image.
        all if wanted.is_none() && is_one_image(&all) => {
            let (mut names, platforms): (Vec<_>, Vec<_>) = all.into_iter().unzip();
            let name = names.swap_remove(0).into_iter().next();
            (name, documents::for_this_machine(platforms)?)
        }
        all => choose(all, wanted)?,
    };
    for _ in 0..MAX_NESTING {
        let bytes = blob(members, &descriptor)?;
        if !documents::is_index(&descriptor, &bytes) {
            let manifest: Manifest = documents::parse("the manifest", &bytes)?;
            let plan = plan(members, &manifest)?;
            return Ok(Found { plan, reference });
        }
        let index: Index = documents::parse("an index", &bytes)?;
        descriptor = documents::for_this_machine(index.manifests)?;
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

fn plan(members: &Members, manifest: &Manifest) -> Result<Plan, ImageError> {
    manifest.check()?;
    let bytes = blob(members, &manifest.config)?;
    let config: Config = documents::parse("the configuration", &bytes)?;
    let layers = manifest.layers.iter().map(|layer| Layer {
        source: place(layer),
        blob: Some((layer.digest.clone(), layer.size)),
    });
    Plan::new(config, manifest.config.digest.clone(), layers.collect())
}

/// Reads a small blob and checks its digest.
fn blob(members: &Members, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
    let bytes = members.document(&place(descriptor))?;
    descriptor.check(&bytes)?;
    Ok(bytes)
}

fn place(descriptor: &Descriptor) -> String {
    format!("blobs/sha256/{}", descriptor.digest.hex())
}
