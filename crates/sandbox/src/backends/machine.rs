//! Shared by all kinds of virtual machines: a kernel, an initramfs with the guest as its init, a
//! disk with the image, a size, and the messages of the control channel.
//!
//! Starts no machine: the backends do that.
//!
//! - [`kernel`], [`modules`], [`cpio`], [`initramfs`]: what a machine boots.
//! - [`disk`]: the image as a read-only disk, one for all machines.
//! - [`size`]: memory and processors, in a few steps, so that a few snapshots serve all limits.
//! - [`kvm`]: whether KVM can be used.
//! - [`assignment`]: what a machine is told when it is assigned to a sandbox, with the walls inside
//!   it.
//! - [`control`]: the host's end of the control channel.

pub(crate) mod assignment;
pub(crate) mod control;
mod cpio;
pub(crate) mod disk;
pub(crate) mod initramfs;
pub(crate) mod kernel;
pub(crate) mod kvm;
mod modules;
pub(crate) mod size;

use std::error::Error;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use protocol::Backend;

use super::confined_guest::own_folder;
use crate::error::SandboxError;

/// An error that names the failed step.
pub(crate) fn step(
    backend: Backend,
    doing: impl Into<String>,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> SandboxError {
    SandboxError::Backend {
        backend,
        doing: doing.into(),
        source: source.into(),
    }
}

/// The part of the cache for machines. Its content is executed, so this user must own every folder
/// on the way.
pub(crate) fn folder(cache: &Path) -> io::Result<PathBuf> {
    own_folder(cache)?;
    own_folder(&cache.join("machines"))
}

/// Identifies a version of a file without reading it.
pub(crate) fn stamp(path: &Path) -> String {
    match std::fs::metadata(path) {
        Ok(found) => format!(
            "{} {} {}.{} {}",
            path.display(),
            found.len(),
            found.mtime(),
            found.mtime_nsec(),
            found.ino()
        ),
        Err(_) => path.display().to_string(),
    }
}

/// A short hash of these lines.
pub(crate) fn key(lines: &[String]) -> String {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(lines.join("\n"));
    hex::encode(&digest[..12])
}
