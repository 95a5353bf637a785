//! A recipe as it is written. Nothing is checked here but names of keys and types.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Raw {
    /// `debian:bookworm`, or the name of a recipe that comes along.
    pub(super) from: String,
    #[serde(default)]
    pub(super) mirror: Option<String>,
    #[serde(default)]
    pub(super) packages: Vec<String>,
    /// Commands for a shell, each as root in the new root, in this order, after packages and files.
    #[serde(default)]
    pub(super) run: Vec<String>,
    /// By the path inside.
    #[serde(default)]
    pub(super) files: BTreeMap<String, RawFile>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) content: Option<String>,
    /// A file beside the recipe.
    pub(super) source: Option<String>,
    /// Such as `"0755"`.
    pub(super) mode: Option<String>,
}
