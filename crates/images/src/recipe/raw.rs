//! The TOML form of a recipe. Checks only keys and types.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRecipe {
    /// `debian:bookworm`, or the name of a recipe that is part of the program.
    pub(super) from: String,
    #[serde(default)]
    pub(super) mirror: Option<String>,
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// Shell commands that run as root in the new root, in order, after packages and files.
    #[serde(default)]
    pub(super) run: Vec<String>,
    /// By path in the image.
    #[serde(default)]
    pub(super) files: BTreeMap<String, RawFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) content: Option<String>,
    /// The path of a file beside the recipe.
    pub(super) source: Option<String>,
    /// Such as `"0755"`.
    pub(super) mode: Option<String>,
}
