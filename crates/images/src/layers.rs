//! Unpacks the layers of an image into its root. Archives and registries differ only in where a blob comes
//! from ([`BlobSource`]). Digests are checked while the bytes are unpacked, so the caller must discard the root if
//! unpacking fails.
//!
//! Entry types: [`UnpackPlan`], [`BlobSource`].

use std::io::{self, Read};
use std::path::Path;

use crate::digest::{Digest, HashingStream};
use crate::documents::{self, ImageConfig, check_digest, check_size, shown};
use crate::error::ImageError;
use crate::progress::ImageProgress;
use crate::unpack::budget::{UnpackBudget, UnpackLimits, unpacked};
use crate::unpack::tree::RootTree;
use crate::unpack::{self, TarContent, UnpackError};

/// An open blob.
pub(crate) type BlobReader<'a> = Box<dyn Read + 'a>;

/// Where the bytes of layers come from.
pub(crate) trait BlobSource {
    fn open(&self, source: &str) -> Result<BlobReader<'_>, ImageError>;
}

/// A layer that is not unpacked yet.
#[derive(Debug)]
pub(crate) struct Layer {
    /// Its name in [`BlobSource`].
    pub(crate) source: String,
    /// Digest and size of the compressed bytes, if the manifest has them.
    pub(crate) blob: Option<(Digest, u64)>,
}

/// An image that can be unpacked.
#[derive(Debug)]
pub(crate) struct UnpackPlan {
    pub(crate) config: ImageConfig,
    /// Of the configuration. It identifies the image: the configuration has the digests of all layers.
    pub(crate) digest: Digest,
    layers: Vec<Layer>,
}

impl UnpackPlan {
    /// Fails if the image cannot be the root of a sandbox on this host.
    pub(crate) fn new(
        config: ImageConfig,
        digest: Digest,
        layers: Vec<Layer>,
    ) -> Result<Self, ImageError> {
        let here = documents::host_platform();
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
pub(crate) fn unpack_layers(
    plan: &UnpackPlan,
    blobs: &dyn BlobSource,
    root: &Path,
    limits: UnpackLimits,
    progress: &mut dyn FnMut(ImageProgress<'_>),
) -> Result<u64, ImageError> {
    if plan.layers.len() > limits.layers {
        return Err(ImageError::Unusable(format!(
            "it has {} layers, and {} are allowed",
            plan.layers.len(),
            limits.layers
        )));
    }
    let mut budget = UnpackBudget::new(limits);
    let refused = |what: String| move |source| ImageError::Refused { what, source };
    let mut tree = RootTree::open(root).map_err(refused("the new root".to_owned()))?;
    let total = plan.layers.len();
    for (number, (layer, diff)) in (1..).zip(plan.layers.iter().zip(&plan.config.rootfs.diff_ids)) {
        progress(ImageProgress::Unpacking { number, total });
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
    blob: BlobReader<'_>,
    tree: &mut RootTree,
    budget: &mut UnpackBudget,
) -> Result<(), UnpackError> {
    let mut packed = HashingStream::new(blob);
    let mut content = HashingStream::new(unpacked(&mut packed, budget)?);
    let outcome = unpack::apply(&mut content, TarContent::Layer, tree, budget);
    let (unpacked_digest, _) = content.finish();
    // A wrong blob usually fails to unpack. Then a digest mismatch is the better error.
    if let (Some((expected, size)), true) = (&layer.blob, needs_digest_check(&outcome)) {
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
fn needs_digest_check(outcome: &Result<(), UnpackError>) -> bool {
    !matches!(
        outcome,
        Err(UnpackError::TooLarge(_) | UnpackError::TooMany(_) | UnpackError::Bomb(_))
    )
}
