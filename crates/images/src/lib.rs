//! Images: root file systems for sandboxes. They are built from a recipe, imported from an archive or
//! pulled from a registry. Every backend can use them: as a folder, as a disk or as an OCI archive.
//!
//! Archives and registries are untrusted. Digests are checked before a name points at an image, names and
//! links in archives resolve only inside the new root, and all sizes are limited. An image is published
//! atomically. The crate prints nothing and reads no environment variables.
//!
//! Entry types: [`ImageStore`], [`Recipe`], and [`build_disk()`] for any folder.

mod archive;
mod build;
mod digest;
mod disk;
mod documents;
mod error;
mod export;
mod layers;
mod listing;
mod programs;
mod progress;
mod recipe;
#[cfg(feature = "registry")]
mod registry;
mod store;
mod unpack;

pub use self::build::{PackageSources, Reuse};
pub use self::digest::{Digest, ParseDigestError};
pub use self::disk::{build_disk, build_disk_with};
pub use self::error::ImageError;
pub use self::export::{export_oci, export_oci_file};
pub use self::programs::HostPrograms;
pub use self::progress::ImageProgress;
pub use self::recipe::{Recipe, SHIPPED_RECIPES};
#[cfg(feature = "registry")]
pub use self::registry::{RegistryLogin, RegistryOptions, default_image_name, logins, registry_of};
pub use self::store::{ImageOrigin, ImageStore, RemovedImages, StoredImage, check_name};
pub use self::unpack::UnpackError;
pub use self::unpack::budget::UnpackLimits;
