//! The OCI JSON documents, as far as they are needed here, and checks whether an image is usable. No I/O.
//!
//! Entry types: [`ImageManifest`], [`ImageConfig`], [`Descriptor`].

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::ImageError;
use crate::unpack::UnpackError;

pub(crate) const INDEX_MEDIA_TYPE: &str = "application/vnd.oci.image.index.v1+json";
pub(crate) const MANIFEST_MEDIA_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const CONFIG_MEDIA_TYPE: &str = "application/vnd.oci.image.config.v1+json";
pub(crate) const LAYER_MEDIA_TYPE: &str = "application/vnd.oci.image.layer.v1.tar";
pub(crate) const DOCKER_INDEX_MEDIA_TYPE: &str =
    "application/vnd.docker.distribution.manifest.list.v2+json";
pub(crate) const DOCKER_MANIFEST_MEDIA_TYPE: &str =
    "application/vnd.docker.distribution.manifest.v2+json";
const DOCKER_CONFIG_MEDIA_TYPE: &str = "application/vnd.docker.container.image.v1+json";

/// Refers to a blob by digest and size.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Descriptor {
    #[serde(default)]
    pub(crate) media_type: String,
    pub(crate) digest: Digest,
    pub(crate) size: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) platform: Option<Platform>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) annotations: BTreeMap<String, String>,
}

impl Descriptor {
    /// Checks size and digest of a blob.
    pub(crate) fn check(&self, bytes: &[u8]) -> Result<(), ImageError> {
        let refused = |source| ImageError::Refused {
            what: format!("the blob `{}`", self.digest),
            source,
        };
        check_size(self.size, bytes.len() as u64).map_err(refused)?;
        check_digest(&self.digest, &Digest::of(bytes)).map_err(refused)
    }
}

pub(crate) fn check_size(expected: u64, found: u64) -> Result<(), UnpackError> {
    if expected == found {
        Ok(())
    } else {
        Err(UnpackError::Size { expected, found })
    }
}

pub(crate) fn check_digest(expected: &Digest, found: &Digest) -> Result<(), UnpackError> {
    if expected == found {
        Ok(())
    } else {
        Err(UnpackError::Digest {
            expected: expected.clone(),
            found: found.clone(),
        })
    }
}

/// A platform, in Go's names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Platform {
    pub(crate) architecture: String,
    pub(crate) os: String,
}

/// Several images, usually one for each platform.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageIndex {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) media_type: String,
    pub(crate) manifests: Vec<Descriptor>,
}

/// One image: a configuration and layers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ImageManifest {
    pub(crate) schema_version: u32,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) media_type: String,
    pub(crate) config: Descriptor,
    pub(crate) layers: Vec<Descriptor>,
}

impl ImageManifest {
    /// Checks that it describes a root file system: registries also hold other artifacts.
    pub(crate) fn check(&self) -> Result<(), ImageError> {
        let config = self.config.media_type.as_str();
        if !matches!(config, CONFIG_MEDIA_TYPE | DOCKER_CONFIG_MEDIA_TYPE) {
            return Err(ImageError::Unusable(format!(
                "its configuration is of the type `{}`, not that of an image",
                shown(config)
            )));
        }
        for layer in &self.layers {
            let kind = layer.media_type.as_str();
            let is_layer = [".tar", "+gzip", ".gzip", "+zstd"]
                .iter()
                .any(|end| kind.ends_with(end));
            let is_ours = kind.starts_with(LAYER_MEDIA_TYPE)
                || kind.starts_with("application/vnd.docker.image.rootfs.diff.tar");
            if !is_layer || !is_ours {
                return Err(ImageError::Unusable(format!(
                    "a layer is of the type `{}`, which cannot be unpacked",
                    shown(kind)
                )));
            }
        }
        Ok(())
    }
}

/// The configuration of an image.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ImageConfig {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) created: Option<String>,
    pub(crate) architecture: String,
    pub(crate) os: String,
    #[serde(default)]
    pub(crate) config: Option<ContainerDefaults>,
    pub(crate) rootfs: RootFs,
}

/// The defaults for containers of the image.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct ContainerDefaults {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) env: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cmd: Option<Vec<String>>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RootFs {
    #[serde(rename = "type", default)]
    pub(crate) kind: String,
    /// The digest of each layer, uncompressed.
    pub(crate) diff_ids: Vec<Digest>,
}

pub(crate) fn parse_json<T: DeserializeOwned>(what: &str, bytes: &[u8]) -> Result<T, ImageError> {
    serde_json::from_slice(bytes).map_err(|source| ImageError::ParseDocument {
        what: shown(what),
        source,
    })
}

/// Whether a document is an index, by its media type or, if that is missing, by its content.
pub(crate) fn is_index(descriptor: &Descriptor, bytes: &[u8]) -> bool {
    match descriptor.media_type.as_str() {
        INDEX_MEDIA_TYPE | DOCKER_INDEX_MEDIA_TYPE => true,
        MANIFEST_MEDIA_TYPE | DOCKER_MANIFEST_MEDIA_TYPE => false,
        _ => serde_json::from_slice::<ImageIndex>(bytes).is_ok(),
    }
}

/// Selects the image for the host's platform.
pub(crate) fn select_for_host(all: Vec<Descriptor>) -> Result<Descriptor, ImageError> {
    let here = host_platform();
    let offered: Vec<String> = all
        .iter()
        .filter_map(|one| one.platform.as_ref())
        .map(|platform| shown(&format!("{}/{}", platform.os, platform.architecture)))
        .collect();
    let is_only = all.len() == 1 && all[0].platform.is_none();
    let mut fitting = all
        .into_iter()
        .filter(|one| is_only || one.platform.as_ref() == Some(&here));
    fitting.next().ok_or_else(|| {
        ImageError::Unusable(format!(
            "it is for {} and not for {}/{}",
            if offered.is_empty() {
                "nothing".to_owned()
            } else {
                offered.join(", ")
            },
            here.os,
            here.architecture
        ))
    })
}

pub(crate) fn host_platform() -> Platform {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "x86" => "386",
        other => other,
    };
    Platform {
        architecture: architecture.to_owned(),
        os: "linux".to_owned(),
    }
}

/// Cuts off untrusted text for use in a message.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(200).collect()
}
