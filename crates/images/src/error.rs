//! Errors of image operations.
//!
//! Entry type: [`ImageError`].

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::unpack::UnpackError;

/// Why an image could not be built, imported, pulled, found or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// Invalid image name.
    #[error(
        "cannot call an image `{0}`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins \
         with a letter or a digit"
    )]
    Name(String),
    /// No image has that name.
    #[error("there is no image `{0}`")]
    Unknown(String),
    /// A root must be a folder.
    #[error("cannot use `{}` as a root: it is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A folder of the store or a root could not be read.
    #[error("cannot read `{}`", path.display())]
    ReadTree { path: PathBuf, source: io::Error },
    /// The store, the disk cache or an exported file could not be written.
    #[error("cannot write to `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// No program that makes file systems is installed.
    #[error("cannot make a disk: none of mkfs.erofs, mksquashfs and mkfs.ext4 is installed")]
    NoDiskMaker,
    /// A host program could not be started.
    #[error("cannot start `{program}`")]
    Start {
        program: &'static str,
        source: io::Error,
    },
    /// The program that makes the file system failed.
    #[error("cannot make a disk of `{}`: {maker}: {why}", root.display())]
    MakeDisk {
        maker: &'static str,
        root: PathBuf,
        /// The last line of its stderr.
        why: String,
    },

    /// The file is not an image archive.
    #[error("cannot import `{}`: it is neither what `docker save` writes nor an OCI layout", .0.display())]
    NotAnArchive(PathBuf),
    /// The file could not be read, or is not a valid archive.
    #[error("cannot read the archive `{}`", path.display())]
    ReadArchive { path: PathBuf, source: UnpackError },
    /// The archive has several images, and none was selected.
    #[error("there are several images in the archive: {}", join_names(names))]
    SeveralImages { names: Vec<String> },
    /// The archive has no image of that name.
    #[error(
        "there is no image `{wanted}` in the archive, only {}",
        join_names(names)
    )]
    NoSuchReference { wanted: String, names: Vec<String> },
    /// A part of an archive or an image is missing.
    #[error("{what} is incomplete: there is no `{missing}`")]
    Incomplete { what: String, missing: String },
    /// A JSON document is invalid.
    #[error("cannot understand `{what}`")]
    ParseDocument {
        what: String,
        source: serde_json::Error,
    },
    /// Untrusted content does not match its digest or size, is malformed or is dangerous.
    #[error("cannot accept {what}")]
    Refused { what: String, source: UnpackError },
    /// The image cannot be used for a sandbox on this host.
    #[error("cannot use the image: {0}")]
    Unusable(String),

    /// The recipe could not be read.
    #[error("cannot read the recipe `{}`", path.display())]
    ReadRecipe { path: PathBuf, source: io::Error },
    /// The recipe is invalid.
    #[error("the recipe `{recipe}` is wrong: {why}")]
    Recipe {
        recipe: String,
        /// With the line number if known.
        why: String,
    },
    /// No builder program is installed.
    #[error("cannot build an image: neither mmdebstrap nor debootstrap is installed")]
    NoBuilder,
    /// The user lacks the rights to build.
    #[error("cannot build an image as an ordinary user: {0}")]
    Unprivileged(&'static str),
    /// The build failed.
    #[error("cannot build the image: {program}: {why}")]
    Build {
        program: &'static str,
        /// From its output.
        why: String,
    },

    /// The reference is invalid.
    #[error("cannot understand the reference `{reference}`: {why}")]
    Reference { reference: String, why: String },
    /// The registry requires a login. Many registries also answer so if the image does not exist.
    #[error("cannot fetch `{reference}`: the registry asks for a login, or has no such image")]
    Login { reference: String },
    /// The registry could not be reached, or answered with an error.
    #[error("cannot fetch `{reference}`: {why}")]
    Fetch { reference: String, why: String },
}

impl ImageError {
    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Unknown(_) => "`hotcell image list` shows those there are",
            Self::NoDiskMaker => "install erofs-utils",
            Self::NotAnArchive(_) | Self::ReadArchive { .. } => {
                "`podman save --format oci-archive -o FILE IMAGE` and `docker save -o FILE IMAGE` \
                 write one"
            }
            Self::SeveralImages { .. } | Self::NoSuchReference { .. } => {
                "choose one with `--reference NAME`"
            }
            Self::Reference { .. } => "a reference has the form `registry.example/team/image:tag`",
            Self::Login { .. } => {
                "log in with `podman login` or `docker login`, if the image exists"
            }
            Self::NoBuilder => "install mmdebstrap",
            Self::Unprivileged(_) => {
                "install mmdebstrap and uidmap, and add your user to /etc/subuid and /etc/subgid \
                 (`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER`)"
            }
            _ => return None,
        })
    }

    /// Whether the caller's request is at fault, rather than a failure while it was performed.
    pub fn is_usage_error(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::Unknown(_)
                | Self::NotAFolder(_)
                | Self::NotAnArchive(_)
                | Self::SeveralImages { .. }
                | Self::NoSuchReference { .. }
                | Self::ReadRecipe { .. }
                | Self::Recipe { .. }
                | Self::Reference { .. }
        )
    }
}

fn join_names(names: &[String]) -> String {
    if names.is_empty() {
        "some without names".to_owned()
    } else {
        names.join(", ")
    }
}
