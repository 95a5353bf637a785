//! Flags of `hotcell image`.

use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::StoreFlags;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum ImageCommand {
    /// Builds an image from a recipe, or finds the one that the same recipe made before.
    Build(ImageBuild),
    /// Takes an image out of a file that `docker save`, `podman save` or `skopeo` wrote.
    Import {
        #[command(flatten)]
        store: StoreFlags,

        /// What it is to be called.
        #[arg(value_name = "NAME")]
        name: String,

        /// The file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Which one, if there are several in the file.
        #[arg(long, value_name = "REFERENCE", value_parser = NonEmptyStringValueParser::new())]
        reference: Option<String>,
    },
    /// Fetches an image from a registry.
    Pull {
        #[command(flatten)]
        store: StoreFlags,

        /// Such as `debian:bookworm` or `registry.example.com/team/tools:1.2`.
        #[arg(value_name = "REFERENCE")]
        reference: String,

        /// What it is to be called [default: the last part of its reference].
        #[arg(long, value_name = "NAME")]
        name: Option<String>,

        /// Talks to the registry without TLS. One on this machine is always talked to so.
        #[arg(long)]
        insecure: bool,
    },
    /// Lists images.
    List {
        #[command(flatten)]
        store: StoreFlags,

        /// One image a line, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Shows what is known of an image.
    Show {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(value_name = "NAME")]
        name: String,

        /// For programs.
        #[arg(long)]
        json: bool,
    },
    /// Removes images. A sandbox that is using one loses its root.
    Remove {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Writes an image to a file, for Podman and Docker or as a disk.
    Export {
        #[command(flatten)]
        store: StoreFlags,

        #[arg(value_name = "NAME")]
        name: String,

        /// Where to; `-` is standard output.
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// `oci` is what `podman load` and `docker load` take; `disk` a read-only file system.
        #[arg(long, value_name = "FORMAT", value_parser = ["oci", "disk"], default_value = "oci")]
        format: String,

        /// Replaces a file that is there.
        #[arg(long)]
        force: bool,
    },
    /// Removes what no name means any more, and what interrupted commands have left.
    Prune {
        #[command(flatten)]
        store: StoreFlags,
    },
}

#[derive(Debug, Args)]
pub(crate) struct ImageBuild {
    #[command(flatten)]
    pub(crate) store: StoreFlags,

    /// A recipe that comes along, `base` or `desktop`, or a file such as `./my.toml`.
    #[arg(value_name = "RECIPE")]
    pub(crate) recipe: String,

    /// What it is to be called [default: as the recipe].
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,

    /// Builds anew, for instance because packages were updated.
    #[arg(long)]
    pub(crate) fresh: bool,
}
