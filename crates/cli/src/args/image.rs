//! Flags of `hotcell image`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::StoreFlags;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ImageCommand {
    /// Build an image from a recipe, or reuse the one that the same recipe built before.
    Build(ImageBuildFlags),
    /// Import an image from a file written by `docker save`, `podman save` or `skopeo`.
    Import {
        #[command(flatten)]
        store: StoreFlags,

        /// Name of the image.
        #[arg(value_name = "NAME")]
        name: String,

        /// Image file; `-` for standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Image to import if the file contains several.
        #[arg(long, value_name = "REFERENCE", value_parser = NonEmptyStringValueParser::new())]
        reference: Option<String>,
    },
    /// Pull an image from a registry.
    Pull {
        #[command(flatten)]
        store: StoreFlags,

        /// Reference, such as `debian:bookworm` or `registry.example.com/team/tools:1.2`.
        #[arg(value_name = "REFERENCE")]
        reference: String,

        /// Name of the image [default: the last part of its reference].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        /// Use plain HTTP for the registry. Always used for a registry on this machine.
        #[arg(long)]
        insecure: bool,
    },
    /// List images.
    List {
        #[command(flatten)]
        store: StoreFlags,

        /// Print JSON, one image per line.
        #[arg(long)]
        json: bool,
    },
    /// Show details of an image.
    Show {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(value_name = "NAME")]
        name: String,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove images. A sandbox that uses one loses its root file system.
    Remove {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Export an image to a file, for Podman and Docker or as a disk.
    Export {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(value_name = "NAME")]
        name: String,

        /// Output file; `-` for standard output.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// `oci` for `podman load` and `docker load`, `disk` for a read-only file system.
        #[arg(long, value_name = "FORMAT", value_parser = ["oci", "disk"], default_value = "oci")]
        format: String,

        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// Remove untagged images and what interrupted commands left behind.
    Prune {
        #[command(flatten)]
        store: StoreFlags,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImageBuildFlags {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// Built-in recipe, `base` or `desktop`, or a file such as `./my.toml`.
    #[arg(value_name = "RECIPE")]
    pub(crate) recipe: String,

    /// Name of the image [default: the recipe's name].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Build again, for example because packages were updated.
    #[arg(long)]
    pub(crate) fresh: bool,
}
