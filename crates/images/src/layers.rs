//! Unpacks the layers of an image into its root. Archives and registries differ only in where a blob comes
//! from ([`Blobs`]). Digests are checked while the bytes are unpacked, so the caller must discard the root if
//! unpacking fails.
//!
//! Entry types: [`Plan`], [`Blobs`].

use std::io::{self, Read};
use std::path::Path;

use crate::digest::{Digest, Hashing};
use crate::documents::{self, Config, check_digest, check_size, shown};
use crate::error::ImageError;
use crate::progress::Progress;
use crate::unpack::budget::{Budget, Limits, unpacked};
use crate::unpack::tree::Tree;
use crate::unpack::{self, Flaw, Meaning};

/// An open blob.
pub(crate) type Opened<'a> = Box<dyn Read + 'a>;

/// Where the bytes of layers come from.
pub(crate) trait Blobs {
    fn open(&self, source: &str) -> Result<Opened<'_>, ImageError>;
}

/// A layer that is not unpacked yet.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Its name in [`Blobs`].
    pub(crate) source: String,
    /// Digest and size of the compressed bytes, if the manifest has them.
    pub(crate) blob: Option<(Digest, u64)>,
}

/// An image that can be unpacked.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: Config,
    /// Of the configuration. It identifies the image: the configuration has the digests of all layers.
    pub(crate) digest: Digest,
    layers: Vec<Layer>,
}

impl Plan {
    /// Fails if the image cannot be the root of a sandbox on this host.
    pub(crate) fn new(
        config: Config,
        digest: Digest,
        layers: Vec<Layer>,
    ) -> Result<Self, ImageError> {
        let here = documents::this_machine();
        if config.os != here.os || config.architecture != here.architecture {
            return Err(ImageError::Unusable(format!(
                "it is for {}/{} and not for {}/{}",
                shown(&config.os),
                shown(&config.architecture),
                here.os,
                here.architecture
            )));
        }
        let promised = config.rootfs.diff_ids.len();
        if promised != layers.len() {
            return Err(ImageError::Unusable(format!(
                "it has {} layers where its configuration has {promised}",
                layers.len()
            )));
        }
        Ok(Self {
            config,
            digest,
            layers,
        })
    }

    /// The environment variables of the image, without invalid ones.
    pub(crate) fn env(&self) -> Vec<(String, String)> {
        let run = self.config.config.as_ref();
        let pairs = run.and_then(|run| run.env.as_deref()).unwrap_or_default();
        pairs
            .iter()
            .filter_map(|pair| pair.split_once('='))
            .filter(|(name, value)| {
                !name.is_empty() && !name.contains('\0') && !value.contains('\0')
            })
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

/// Unpacks all layers in order. Returns the number of skipped devices and FIFOs.
pub(crate) fn unpack(
    plan: &Plan,
    blobs: &dyn Blobs,
    root: &Path,
    limits: Limits,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<u64, ImageError> {
    if plan.layers.len() > limits.layers {
        return Err(ImageError::Unusable(format!(
            "it has {} layers, and {} are allowed",
            plan.layers.len(),
            limits.layers
        )));
    }
    let mut budget = Budget::new(limits);
    let refused = |what: String| move |source| ImageError::Refused { what, source };
    let mut tree = Tree::open(root).map_err(refused("the new root".to_owned()))?;
    let total = plan.layers.len();
    for (number, (layer, diff)) in (1..).zip(plan.layers.iter().zip(&plan.config.rootfs.diff_ids)) {
        progress(Progress::Unpacking { number, total });
        let blob = blobs.open(&layer.source)?;
        let what = format!("layer {number} of {total}");
        unpack_layer(layer, diff, blob, &mut tree, &mut budget).map_err(refused(what))?;
    }
    tree.sync().map_err(refused("the new root".to_owned()))?;
    Ok(tree.skipped())
}

fn unpack_layer(
    layer: &Layer,
    diff: &Digest,
    blob: Opened<'_>,
    tree: &mut Tree,
    budget: &mut Budget,
) -> Result<(), Flaw> {
    let mut packed = Hashing::new(blob);
    let mut content = Hashing::new(unpacked(&mut packed, budget)?);
    let outcome = unpack::apply(&mut content, Meaning::Layer, tree, budget);
    let (unpacked_digest, _) = content.finish();
    // A wrong blob usually fails to unpack. Then a digest mismatch is the better error.
    if let (Some((expected, size)), true) = (&layer.blob, is_about_content(&outcome)) {
        io::copy(&mut packed, &mut io::sink())?;
        let (found, length) = packed.finish();
        check_size(*size, length)?;
        check_digest(expected, &found)?;
    }
    outcome?;
    check_digest(diff, &unpacked_digest)
}

/// Whether the blob's digest is worth checking. Not after a limit was reached: reading the remaining bytes
/// would take long and not change the error.
fn is_about_content(outcome: &Result<(), Flaw>) -> bool {
    !matches!(
        outcome,
        Err(Flaw::TooLarge(_) | Flaw::TooMany(_) | Flaw::Bomb(_))
    )
}
