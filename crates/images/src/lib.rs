//! Images: root file systems for sandboxes. They are built from a recipe, imported from an archive or
//! pulled from a registry. Every backend can use them: as a folder, as a disk or as an OCI archive.
//!
//! Archives and registries are untrusted. Digests are checked before a name points at an image, names and
//! links in archives resolve only inside the new root, and all sizes are limited. An image is published
//! atomically. The crate prints nothing and reads no environment variables.
//!
//! Entry types: [`Store`], [`Recipe`], and [`disk()`] for any folder.

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

pub use self::build::{Reuse, Sources};
pub use self::digest::{Digest, NotADigest};
pub use self::disk::{disk, disk_with};
pub use self::error::ImageError;
pub use self::export::{export_oci, export_oci_file};
pub use self::programs::Programs;
pub use self::progress::Progress;
pub use self::recipe::{Recipe, SHIPPED};
#[cfg(feature = "registry")]
pub use self::registry::{Login, Registry, logins, registry_of, usual_name};
pub use self::store::{Cleared, Image, Origin, Store, check_name};
pub use self::unpack::Flaw;
pub use self::unpack::budget::Limits;
