//! Recipes: TOML files that describe the content of an image. Parsing one reads only the recipe and the
//! files beside it. [`crate::ImageStore::build`] makes the image.
//!
//! Entry type: [`Recipe`].

mod check;
mod raw;
mod shipped;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nix::fcntl::OFlag;
use serde::Serialize;

use self::raw::RawRecipe;
pub use self::shipped::SHIPPED_RECIPES;
use crate::digest::Digest;
use crate::documents::host_platform;
use crate::error::ImageError;

/// Part of the cache key. Increase it when builds work differently, so that images are built again.
const RECIPE_VERSION: u32 = 1;

/// The largest recipe, and the largest file that a recipe can include.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// A recipe with the content of all its files. Equal recipes make the same image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The Debian suite, such as `bookworm`.
    pub(crate) suite: String,
    /// The package archive, if it is not the host's.
    pub(crate) mirror: Option<String>,
    /// Sorted, without duplicates.
    pub(crate) packages: Vec<String>,
    /// By path in the image.
    pub(crate) files: BTreeMap<String, RecipeFile>,
    pub(crate) run: Vec<String>,
}

/// A file that a recipe puts into the image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct RecipeFile {
    pub(crate) mode: u32,
    pub(crate) content: Vec<u8>,
}

impl Recipe {
    /// A recipe that is part of the program, such as `base`.
    pub fn shipped(name: &str) -> Option<Result<Self, ImageError>> {
        let (_, text) = SHIPPED_RECIPES.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(name, text, None))
    }

    /// Reads a recipe from a file.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        let unreadable = |source| ImageError::ReadRecipe {
            path: path.to_owned(),
            source,
        };
        let text = read_regular_file(path).map_err(unreadable)?;
        let text =
            String::from_utf8(text).map_err(|_| unreadable(io::ErrorKind::InvalidData.into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&path.display().to_string(), &text, Some(folder))
    }

    /// Parses a recipe. Its `source` files are relative to the given folder.
    pub fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Self, ImageError> {
        let wrong = |why: String| ImageError::Recipe {
            recipe: name.to_owned(),
            why,
        };
        let raw: RawRecipe =
            toml::from_str(text).map_err(|error| wrong(parse_error_message(&error, text)))?;
        let mut recipe = match raw.from.split_once(':') {
            Some(("debian", suite)) => Self {
                suite: check::suite(suite).map_err(wrong)?,
                mirror: None,
                packages: Vec::new(),
                files: BTreeMap::new(),
                run: Vec::new(),
            },
            Some(_) => return Err(wrong(unknown_base_message(&raw.from))),
            None => {
                Self::shipped(&raw.from).ok_or_else(|| wrong(unknown_base_message(&raw.from)))??
            }
        };
        recipe.add(raw, folder).map_err(wrong)?;
        Ok(recipe)
    }

    /// Adds the parts of a recipe to the recipe that it builds on.
    fn add(&mut self, raw: RawRecipe, folder: Option<&Path>) -> Result<(), String> {
        if let Some(mirror) = raw.mirror {
            self.mirror = Some(check::mirror(&mirror)?);
        }
        for package in raw.packages {
            self.packages.push(check::package(&package)?);
        }
        self.packages.sort();
        self.packages.dedup();
        for (path, file) in raw.files {
            let mode = check::mode(file.mode.as_deref(), &path)?;
            let content = match (file.content, file.source) {
                (Some(content), None) => content.into_bytes(),
                (None, Some(source)) => read_beside(folder, &source)?,
                _ => return Err(format!("`{path}` needs either `content` or `source`")),
            };
            let path = check::path_in_image(&path)?;
            self.files.insert(path, RecipeFile { mode, content });
        }
        for command in raw.run {
            self.run.push(check::command(&command)?);
        }
        Ok(())
    }

    /// The base that everything builds on, such as `debian:bookworm`.
    pub fn from(&self) -> String {
        format!("debian:{}", self.suite)
    }

    /// The cache key of the image: a digest of everything that determines its content.
    pub fn digest(&self) -> Digest {
        let all = (RECIPE_VERSION, host_platform().architecture, self);
        let bytes = serde_json::to_vec(&all).expect("text and numbers can be serialised");
        Digest::of(&bytes)
    }
}

fn unknown_base_message(from: &str) -> String {
    let shipped: Vec<&str> = SHIPPED_RECIPES.iter().map(|(name, _)| *name).collect();
    format!(
        "`from` is `{from}`, not `debian:SUITE` or one of {}",
        shipped.join(", ")
    )
}

/// Reads a file beside the recipe.
fn read_beside(folder: Option<&Path>, source: &str) -> Result<Vec<u8>, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read its file `{source}`: {why}");
    let folder = folder.ok_or_else(|| cannot(&"the recipe has no folder"))?;
    check::path_beside_recipe(source)?;
    read_regular_file(&folder.join(source)).map_err(|error| cannot(&error))
}

/// Reads a regular file. Does not block on a FIFO, and does not read a device or a growing file forever.
fn read_regular_file(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE_BYTES {
        Err(io::Error::other("it is too large"))
    } else {
        Ok(content)
    }
}

/// The parser's message, with the line number if known.
fn parse_error_message(error: &toml::de::Error, text: &str) -> String {
    let why = error.message().replace('\n', ", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {why}", before.matches('\n').count() + 1),
        None => why,
    }
}
