//! Pulls images from registries. A registry is untrusted: every document and blob is checked against the
//! digest that refers to it, from the manifest down, while it is written.
//!
//! Entry points: [`ImageStore::pull`], [`RegistryOptions`].

mod error;
mod login;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::StreamExt;
use oci_client::Reference;
use oci_client::client::{Client, ClientConfig, ClientProtocol};
use oci_client::manifest::OciDescriptor;
use oci_client::secrets::RegistryAuth;

pub use self::login::{RegistryLogin, logins};
use crate::digest::{Digest, HashingStream};
use crate::documents::{
    self, Descriptor, ImageConfig, ImageIndex, ImageManifest, check_digest, check_size,
};
use crate::error::ImageError;
use crate::layers::{BlobReader, BlobSource, Layer, UnpackPlan};
use crate::progress::ImageProgress;
use crate::store::{ImageOrigin, ImageStore, StoredImage, check_name};
use crate::unpack::UnpackError;

/// The largest configuration.
const MAX_CONFIG_BYTES: u64 = 8 << 20;
/// The connect timeout, and how long a registry may send nothing.
const REGISTRY_TIMEOUT: Duration = Duration::from_secs(60);
/// How deep indexes may be nested.
const MAX_INDEX_DEPTH: usize = 4;

const ACCEPTED_MEDIA_TYPES: &[&str] = &[
    documents::MANIFEST_MEDIA_TYPE,
    documents::INDEX_MEDIA_TYPE,
    documents::DOCKER_MANIFEST_MEDIA_TYPE,
    documents::DOCKER_INDEX_MEDIA_TYPE,
];

/// How to connect to a registry.
#[derive(Debug, Default)]
pub struct RegistryOptions {
    pub login: RegistryLogin,
    /// Connect without TLS, even if the registry is on another machine.
    pub is_insecure: bool,
}

/// The default name of a pulled image: the last part of its repository and its tag, such as
/// `debian:bookworm`.
pub fn default_image_name(reference: &str) -> Result<String, ImageError> {
    let reference = parse_reference(reference)?;
    let last = reference
        .repository()
        .rsplit('/')
        .next()
        .unwrap_or_default();
    let name = match reference.tag() {
        Some(tag) if tag != "latest" => format!("{last}:{tag}"),
        _ => last.to_owned(),
    };
    check_name(&name)?;
    Ok(name)
}

/// The registry of a reference, as files of logins name it.
pub fn registry_of(reference: &str) -> Result<String, ImageError> {
    Ok(parse_reference(reference)?.registry().to_owned())
}

impl ImageStore {
    /// Pulls an image. Unpacking, at the end, blocks the thread.
    pub async fn pull(
        &self,
        name: &str,
        reference: &str,
        registry: &RegistryOptions,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<StoredImage, ImageError> {
        check_name(name)?;
        let reference = parse_reference(reference)?;
        let session = RegistrySession::new(reference, registry)?;
        let (manifest, digest) = session.manifest().await?;
        manifest.check()?;
        let work = self.begin()?;
        let fetched = FetchedBlobs {
            folder: work.folder().join("blobs"),
        };
        fs::create_dir(&fetched.folder).map_err(self.unwritten())?;
        let config = session.document(&manifest.config).await?;
        let config: ImageConfig = documents::parse_json("the configuration", &config)?;
        let layers = manifest.layers.iter().map(|layer| Layer {
            source: layer.digest.hex().to_owned(),
            blob: Some((layer.digest.clone(), layer.size)),
        });
        let plan = UnpackPlan::new(config, manifest.config.digest.clone(), layers.collect())?;
        if !self.has_root(&plan.digest) {
            let sizes = manifest.layers.iter().map(|layer| layer.size);
            let total = sizes.fold(0u64, u64::saturating_add);
            if total > self.limits.bytes {
                return Err(ImageError::Refused {
                    what: format!("`{}`", session.reference),
                    source: UnpackError::TooLarge(self.limits.bytes),
                });
            }
            for layer in &manifest.layers {
                session.fetch(layer, &fetched.folder, progress).await?;
            }
        }
        let origin = ImageOrigin::Registry {
            reference: session.reference.whole(),
            manifest: digest,
        };
        self.unpack(name, work, &plan, &fetched, origin, progress)
    }
}

/// A folder of fetched blobs.
struct FetchedBlobs {
    folder: PathBuf,
}

impl BlobSource for FetchedBlobs {
    fn open(&self, source: &str) -> Result<BlobReader<'_>, ImageError> {
        let path = self.folder.join(source);
        let file = File::open(&path).map_err(|source| ImageError::ReadTree { path, source })?;
        Ok(Box::new(file) as Box<dyn Read>)
    }
}

/// A connection to a registry for one image.
struct RegistrySession {
    client: Client,
    reference: Reference,
    login: RegistryAuth,
}

impl RegistrySession {
    fn new(reference: Reference, registry: &RegistryOptions) -> Result<Self, ImageError> {
        let server = reference.resolve_registry().to_owned();
        let protocol = if registry.is_insecure || is_loopback(&server) {
            ClientProtocol::HttpsExcept(vec![server])
        } else {
            ClientProtocol::Https
        };
        let config = ClientConfig {
            protocol,
            read_timeout: Some(REGISTRY_TIMEOUT),
            connect_timeout: Some(REGISTRY_TIMEOUT),
            user_agent: "hotcell",
            ..ClientConfig::default()
        };
        let client =
            Client::try_from(config).map_err(|error| error::to_image_error(&reference, &error))?;
        Ok(Self {
            client,
            reference,
            login: registry.login.to_auth(),
        })
    }

    fn failed(&self, error: &oci_client::errors::OciDistributionError) -> ImageError {
        error::to_image_error(&self.reference, error)
    }

    /// The manifest for the host's platform, and its digest.
    async fn manifest(&self) -> Result<(ImageManifest, Digest), ImageError> {
        let mut reference = self.reference.clone();
        let mut promised = reference.digest().map(parse_digest).transpose()?;
        for _ in 0..MAX_INDEX_DEPTH {
            let (bytes, _) = self
                .client
                .pull_manifest_raw(&reference, &self.login, ACCEPTED_MEDIA_TYPES)
                .await
                .map_err(|error| self.failed(&error))?;
            let digest = Digest::of(&bytes);
            if let Some(promised) = &promised {
                check_digest(promised, &digest).map_err(|source| ImageError::Refused {
                    what: "the manifest".to_owned(),
                    source,
                })?;
            }
            let described = Descriptor {
                media_type: media_type_of(&bytes),
                digest: digest.clone(),
                size: bytes.len() as u64,
                platform: None,
                annotations: Default::default(),
            };
            if !documents::is_index(&described, &bytes) {
                return Ok((documents::parse_json("the manifest", &bytes)?, digest));
            }
            let index: ImageIndex = documents::parse_json("the index", &bytes)?;
            let chosen = documents::select_for_host(index.manifests)?;
            reference = reference.clone_with_digest(chosen.digest.to_string());
            promised = Some(chosen.digest);
        }
        Err(ImageError::Unusable(
            "its index is nested too deep".to_owned(),
        ))
    }

    /// Fetches a small blob and checks its digest.
    async fn document(&self, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
        if descriptor.size > MAX_CONFIG_BYTES {
            return Err(refused(descriptor)(UnpackError::TooLarge(MAX_CONFIG_BYTES)));
        }
        let mut bytes = Vec::new();
        self.receive(descriptor, &mut bytes, &mut |_| {}).await?;
        descriptor.check(&bytes)?;
        Ok(bytes)
    }

    /// Fetches a blob into a file that is named by its digest.
    async fn fetch(
        &self,
        descriptor: &Descriptor,
        folder: &Path,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<(), ImageError> {
        let path = folder.join(descriptor.digest.hex());
        if path.exists() {
            // The image has the same layer twice.
            return Ok(());
        }
        let file = File::create(&path).map_err(|source| ImageError::Write { path, source })?;
        let mut file = HashingStream::new(file);
        self.receive(descriptor, &mut file, progress).await?;
        let (found, length) = file.finish();
        check_size(descriptor.size, length).map_err(refused(descriptor))?;
        check_digest(&descriptor.digest, &found).map_err(refused(descriptor))
    }

    /// Streams a blob to a writer. Fails if it is larger than the descriptor says.
    async fn receive(
        &self,
        descriptor: &Descriptor,
        target: &mut impl Write,
        progress: &mut dyn FnMut(ImageProgress<'_>),
    ) -> Result<(), ImageError> {
        let wanted = OciDescriptor {
            digest: descriptor.digest.to_string(),
            ..OciDescriptor::default()
        };
        let mut stream = self
            .client
            .pull_blob_stream(&self.reference, &wanted)
            .await
            .map_err(|error| self.failed(&error))?;
        let mut received = 0;
        while let Some(bytes) = stream.next().await {
            let bytes = bytes.map_err(|error| self.failed(&error.into()))?;
            received += bytes.len() as u64;
            if received > descriptor.size {
                return Err(refused(descriptor)(UnpackError::Size {
                    expected: descriptor.size,
                    found: received,
                }));
            }
            let written = target.write_all(&bytes);
            written.map_err(|error| refused(descriptor)(error.into()))?;
            progress(ImageProgress::Fetching {
                digest: &descriptor.digest,
                bytes: received,
                size: descriptor.size,
            });
        }
        Ok(())
    }
}

fn refused(descriptor: &Descriptor) -> impl Fn(UnpackError) -> ImageError + use<> {
    let what = format!("the blob `{}`", descriptor.digest);
    move |source| ImageError::Refused {
        what: what.clone(),
        source,
    }
}

fn parse_reference(reference: &str) -> Result<Reference, ImageError> {
    Reference::try_from(reference).map_err(|error| ImageError::Reference {
        reference: documents::shown(reference),
        why: error.to_string(),
    })
}

fn parse_digest(text: &str) -> Result<Digest, ImageError> {
    text.parse()
        .map_err(|error: crate::ParseDigestError| ImageError::Reference {
            reference: documents::shown(text),
            why: error.to_string(),
        })
}

/// The media type that a document states.
fn media_type_of(bytes: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct MediaTypeField {
        media_type: String,
    }
    serde_json::from_slice::<MediaTypeField>(bytes)
        .map_or_else(|_| String::new(), |kind| kind.media_type)
}

/// Whether a registry's address is a loopback address.
fn is_loopback(server: &str) -> bool {
    let host = match server.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => server,
    };
    let address: Result<std::net::IpAddr, _> = host.trim_matches(['[', ']']).parse();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}
