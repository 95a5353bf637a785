//! Recipes: what is in an image, in a few lines of TOML. Reading one touches the recipe and the files
//! beside it and nothing else; [`crate::Store::build`] makes the image.
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

use self::raw::Raw;
pub use self::shipped::SHIPPED;
use crate::digest::Digest;
use crate::documents::this_machine;
use crate::error::ImageError;

/// Says what building a recipe means; raise it when that changes, so that images are built anew.
const VERSION: u32 = 1;

/// The largest file that a recipe can bring along.
const MAX_FILE: u64 = 64 << 20;

/// A recipe with everything that it names: two of them that are equal make the same image.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Recipe {
    /// The suite of Debian, such as `bookworm`.
    pub(crate) suite: String,
    /// Where packages come from, if not from where the host has its own.
    pub(crate) mirror: Option<String>,
    /// Sorted, each once.
    pub(crate) packages: Vec<String>,
    /// By the path inside.
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
    /// One of the recipes that come along, such as `base`.
    pub fn shipped(name: &str) -> Option<Result<Self, ImageError>> {
        let (_, text) = SHIPPED.iter().find(|(known, _)| *known == name)?;
        Some(Self::parse(name, text, None))
    }

    /// Reads a recipe from a file.
    pub fn read(path: &Path) -> Result<Self, ImageError> {
        let unreadable = |source| ImageError::ReadRecipe {
            path: path.to_owned(),
            source,
        };
        let text = read_regular(path).map_err(unreadable)?;
        let text =
            String::from_utf8(text).map_err(|_| unreadable(io::ErrorKind::InvalidData.into()))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&path.display().to_string(), &text, Some(folder))
    }

    /// Parses a recipe; the files that it brings along are in `folder`.
    pub fn parse(name: &str, text: &str, folder: Option<&Path>) -> Result<Self, ImageError> {
        let wrong = |why: String| ImageError::Recipe {
            recipe: name.to_owned(),
            why,
        };
        let raw: Raw = toml::from_str(text).map_err(|error| wrong(place(&error, text)))?;
        let mut recipe = match raw.from.split_once(':') {
            Some(("debian", suite)) => Self {
                suite: check::suite(suite).map_err(wrong)?,
                mirror: None,
                packages: Vec::new(),
                files: BTreeMap::new(),
                run: Vec::new(),
            },
            Some(_) => return Err(wrong(unknown_start(&raw.from))),
            None => Self::shipped(&raw.from).ok_or_else(|| wrong(unknown_start(&raw.from)))??,
        };
        recipe.add(raw, folder).map_err(wrong)?;
        Ok(recipe)
    }

    /// What a recipe adds to the one that it builds on.
    fn add(&mut self, raw: Raw, folder: Option<&Path>) -> Result<(), String> {
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
                (None, Some(source)) => beside(folder, &source)?,
                _ => return Err(format!("`{path}` needs either `content` or `source`")),
            };
            let path = check::inside(&path)?;
            self.files.insert(path, RecipeFile { mode, content });
        }
        for command in raw.run {
            self.run.push(check::command(&command)?);
        }
        Ok(())
    }

    /// What it builds on, as recipes write it.
    pub fn from(&self) -> String {
        format!("debian:{}", self.suite)
    }

    /// What the image is cached by: everything that decides what is in it.
    pub fn digest(&self) -> Digest {
        let all = (VERSION, this_machine().architecture, self);
        let bytes = serde_json::to_vec(&all).expect("a recipe is made of text and numbers");
        Digest::of(&bytes)
    }
}

fn unknown_start(from: &str) -> String {
    let shipped: Vec<&str> = SHIPPED.iter().map(|(name, _)| *name).collect();
    format!(
        "`from` is `{from}`, not `debian:SUITE` or one of {}",
        shipped.join(", ")
    )
}

/// A file that stands beside the recipe.
fn beside(folder: Option<&Path>, source: &str) -> Result<Vec<u8>, String> {
    let cannot = |why: &dyn std::fmt::Display| format!("cannot read its file `{source}`: {why}");
    let folder = folder.ok_or_else(|| cannot(&"the recipe has no folder"))?;
    check::relative(source)?;
    read_regular(&folder.join(source)).map_err(|error| cannot(&error))
}

/// The content of a regular file, without waiting for the other end of a FIFO and without reading a
/// device or a growing file for ever.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    use std::io::Read;
    let file = fs::OpenOptions::new()
        .read(true)
        .custom_flags(OFlag::O_NONBLOCK.bits())
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a file"));
    }
    let mut content = Vec::new();
    file.take(MAX_FILE + 1).read_to_end(&mut content)?;
    if content.len() as u64 > MAX_FILE {
        Err(io::Error::other("it is too large"))
    } else {
        Ok(content)
    }
}

/// What is wrong and in which line.
fn place(error: &toml::de::Error, text: &str) -> String {
    let why = error.message().replace('\n', ", ");
    match error.span().and_then(|span| text.get(..span.start)) {
        Some(before) => format!("line {}: {why}", before.matches('\n').count() + 1),
        None => why,
    }
}
