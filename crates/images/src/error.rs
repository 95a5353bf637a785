//! What can go wrong with images.
//!
//! Entry type: [`ImageError`].

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::unpack::Flaw;

/// Why an image could not be made, found or used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ImageError {
    /// No image can be called that.
    #[error(
        "cannot call an image `{0}`: a name has letters, digits, `.`, `_`, `-` and `:`, and begins \
         with a letter or a digit"
    )]
    Name(String),
    /// There is no image of that name.
    #[error("there is no image `{0}`")]
    Unknown(String),
    /// A root must be a folder.
    #[error("cannot use `{}` as a root: it is not a folder", .0.display())]
    NotAFolder(PathBuf),
    /// A tree could not be looked through.
    #[error("cannot read `{}`", path.display())]
    ReadTree { path: PathBuf, source: io::Error },
    /// Something in the store or beside it could not be written.
    #[error("cannot write to `{}`", path.display())]
    Write { path: PathBuf, source: io::Error },
    /// Neither of the programs is installed.
    #[error("cannot make a disk: none of mkfs.erofs, mksquashfs and mkfs.ext4 is installed")]
    NoDiskMaker,
    /// A program of the host could not be started.
    #[error("cannot start `{program}`")]
    Start {
        program: &'static str,
        source: io::Error,
    },
    /// The program that makes disks failed.
    #[error("cannot make a disk of `{}`: {maker}: {why}", root.display())]
    MakeDisk {
        maker: &'static str,
        root: PathBuf,
        /// What it said last.
        why: String,
    },

    /// The file holds no image.
    #[error("cannot import `{}`: it is neither what `docker save` writes nor an OCI layout", .0.display())]
    NotAnArchive(PathBuf),
    /// The file could not be read, or is no archive.
    #[error("cannot read the archive `{}`", path.display())]
    ReadArchive { path: PathBuf, source: Flaw },
    /// One has to be chosen.
    #[error("there are several images in the archive: {}", listed(names))]
    SeveralImages { names: Vec<String> },
    /// There is no image of that name in the archive.
    #[error("there is no image `{wanted}` in the archive, only {}", listed(names))]
    NoSuchReference { wanted: String, names: Vec<String> },
    /// A piece is missing.
    #[error("{what} is incomplete: there is no `{missing}`")]
    Incomplete { what: String, missing: String },
    /// A document is not what it should be.
    #[error("cannot understand `{what}`")]
    ParseDocument {
        what: String,
        source: serde_json::Error,
    },
    /// What came is not what was promised, or dangerous.
    #[error("cannot accept {what}")]
    Refused { what: String, source: Flaw },
    /// An image, but none for a sandbox on this machine.
    #[error("cannot use the image: {0}")]
    Unusable(String),

    /// The recipe could not be read.
    #[error("cannot read the recipe `{}`", path.display())]
    ReadRecipe { path: PathBuf, source: io::Error },
    /// The recipe says something that it must not.
    #[error("the recipe `{recipe}` is wrong: {why}")]
    Recipe {
        recipe: String,
        /// With the line, where there is one.
        why: String,
    },
    /// There is nothing to build with.
    #[error("cannot build an image: neither mmdebstrap nor debootstrap is installed")]
    NoBuilder,
    /// This user cannot build.
    #[error("cannot build an image as an ordinary user: {0}")]
    Unprivileged(&'static str),
    /// The build failed.
    #[error("cannot build the image: {program}: {why}")]
    Build {
        program: &'static str,
        /// What it said about it.
        why: String,
    },

    /// A reference that is none.
    #[error("cannot understand the reference `{reference}`: {why}")]
    Reference { reference: String, why: String },
    /// The registry does not show it to everybody; many say so of what is not there, too.
    #[error("cannot fetch `{reference}`: the registry asks for a login, or has no such image")]
    Login { reference: String },
    /// The registry could not be reached, or said no.
    #[error("cannot fetch `{reference}`: {why}")]
    Fetch { reference: String, why: String },
}

impl ImageError {
    /// What a person can do about it, where there is something.
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
            Self::Reference { .. } => "one is like `registry.example/team/image:tag`",
            Self::Login { .. } => "`podman login` or `docker login` first, if it is there",
            Self::NoBuilder => "install mmdebstrap",
            Self::Unprivileged(_) => {
                "install mmdebstrap and uidmap, and have lines for you in /etc/subuid and \
                 /etc/subgid (`usermod --add-subuids 100000-165535 --add-subgids 100000-165535 YOU`)"
            }
            _ => return None,
        })
    }

    /// Whether what was asked for is at fault, and not what happened on the way.
    pub fn is_usage(&self) -> bool {
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

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "some without names".to_owned()
    } else {
        names.join(", ")
    }
}
