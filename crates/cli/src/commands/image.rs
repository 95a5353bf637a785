//! `hotcell image`: builds, lists, shows, exports and removes root file systems for sandboxes.

mod create;
mod progress;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use images::{
    ImageError, ImageOrigin, ImageStore, RemovedImages, StoredImage, export_oci, export_oci_file,
};
use serde_json::{Value, json};

use super::{print, written};
use crate::args::{ImageCommand, StoreFlags};
use crate::cli_error::{CliError, USAGE_ERROR};
use crate::render::{clean, write_line};
use crate::settings::data_folder;

impl From<ImageError> for CliError {
    fn from(error: ImageError) -> Self {
        let code = if error.is_usage_error() {
            USAGE_ERROR
        } else {
            1
        };
        Self::from_error(code, &error).hint(error.hint().map(str::to_owned))
    }
}

pub(crate) fn run(command: &ImageCommand) -> Result<u8, CliError> {
    match command {
        ImageCommand::Build(build) => create::build(build),
        ImageCommand::Import {
            store,
            name,
            file,
            reference,
        } => create::import(store, name, file, reference.as_deref()),
        ImageCommand::Pull {
            store,
            reference,
            name,
            insecure,
        } => create::pull(store, reference, name.as_deref(), *insecure),
        ImageCommand::List { store, json } => list(store, *json),
        ImageCommand::Show { store, name, json } => show(store, name, *json),
        ImageCommand::Remove { store, names } => remove(store, names),
        ImageCommand::Export {
            store,
            name,
            file,
            format,
            force,
        } => export(&open(store)?, name, file, format, *force),
        ImageCommand::Prune { store } => prune(store),
    }
}

/// The image store in the data folder.
pub(crate) fn open(flags: &StoreFlags) -> Result<ImageStore, CliError> {
    Ok(ImageStore::open(data_folder(flags, None)?.join("images")))
}

fn list(flags: &StoreFlags, json: bool) -> Result<u8, CliError> {
    let images = open(flags)?.list()?;
    if json {
        return written(
            images
                .iter()
                .try_for_each(|image| write_line(&image_json(image))),
        );
    }
    if images.is_empty() {
        return print("no images yet: `hotcell image build base` builds one\n");
    }
    let width = images
        .iter()
        .map(|image| image.name.len())
        .max()
        .unwrap_or(0);
    let line = |image: &StoredImage| {
        format!(
            "{:<width$}  {}  {:>9}  {}\n",
            image.name,
            image.digest.short(),
            size(image.bytes),
            clean(&origin(&image.origin)),
        )
    };
    print(&images.iter().map(line).collect::<String>())
}

fn show(flags: &StoreFlags, name: &str, json: bool) -> Result<u8, CliError> {
    let image = open(flags)?.get(name)?;
    if json {
        return written(write_line(&image_json(&image)));
    }
    let mut text = String::new();
    let mut line = |name: &str, value: &str| {
        text.push_str(&format!("{name:<8} {}\n", clean(value)));
    };
    line("name", &image.name);
    line("digest", &image.digest.to_string());
    line("origin", &origin(&image.origin));
    line("named", &image.named.to_string());
    line("size", &size(image.bytes));
    line("entries", &image.entries.to_string());
    if image.skipped > 0 {
        line("skipped", &format!("{} devices and FIFOs", image.skipped));
    }
    line("root", &image.root.display().to_string());
    for (name, value) in &image.env {
        line("env", &format!("{name}={value}"));
    }
    print(&text)
}

fn remove(flags: &StoreFlags, names: &[String]) -> Result<u8, CliError> {
    let store = open(flags)?;
    // All names are checked before anything is removed.
    for name in names {
        store.get(name)?;
    }
    for name in names {
        store.remove(name)?;
        print(&format!("removed {name}\n"))?;
    }
    Ok(0)
}

fn prune(flags: &StoreFlags) -> Result<u8, CliError> {
    let RemovedImages { roots, bytes, .. } = open(flags)?.collect_garbage()?;
    print(&format!(
        "removed {roots} images without a name, {}\n",
        size(bytes)
    ))
}

fn export(
    store: &ImageStore,
    name: &str,
    file: &Path,
    format: &str,
    force: bool,
) -> Result<u8, CliError> {
    let image = store.get(name)?;
    let is_output = file == Path::new("-");
    if !is_output && !force && file.exists() {
        return Err(
            CliError::usage(format!("`{}` already exists", file.display()))
                .hint("choose another, or replace it with `--force`".to_owned()),
        );
    }
    match (format, is_output) {
        ("disk", true) => copy(&store.disk(&image)?, &mut io::stdout().lock()),
        ("disk", false) => {
            let disk = store.disk(&image)?;
            replace(&disk, file)
        }
        (_, true) => Ok(export_oci(&image, io::stdout().lock()).map(|()| 0)?),
        (_, false) => Ok(export_oci_file(&image, file).map(|()| 0)?),
    }
}

fn copy(from: &Path, target: &mut impl io::Write) -> Result<u8, CliError> {
    let mut source = File::open(from).map_err(|error| unwritten(from, &error))?;
    written(io::copy(&mut source, target).map(drop))
}

/// Copies to a temporary file next to the target, then renames it.
fn replace(from: &Path, to: &Path) -> Result<u8, CliError> {
    let folder: PathBuf = match to.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => ".".into(),
    };
    let draft = tempfile::NamedTempFile::new_in(folder).map_err(|error| unwritten(to, &error))?;
    std::fs::copy(from, draft.path()).map_err(|error| unwritten(to, &error))?;
    draft
        .persist(to)
        .map_err(|error| unwritten(to, &error.error))?;
    Ok(0)
}

fn unwritten(path: &Path, error: &io::Error) -> CliError {
    CliError::new(1, format!("cannot write `{}`: {error}", path.display()))
}

fn image_json(image: &StoredImage) -> Value {
    json!({
        "name": image.name,
        "digest": image.digest,
        "origin": image.origin,
        "named": image.named,
        "bytes": image.bytes,
        "entries": image.entries,
        "skipped": image.skipped,
        "root": image.root,
        "env": image.env.iter().cloned().collect::<std::collections::BTreeMap<_, _>>(),
    })
}

fn origin(origin: &ImageOrigin) -> String {
    match origin {
        ImageOrigin::Recipe { from, .. } => format!("built on {from}"),
        ImageOrigin::Archive {
            reference: Some(reference),
        } => format!("imported, {reference}"),
        ImageOrigin::Archive { reference: None } => "imported".to_owned(),
        ImageOrigin::Registry { reference, .. } => format!("pulled, {reference}"),
        _ => "built elsewhere".to_owned(),
    }
}

/// `812 MB`, `1.4 GB`.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes.div_ceil(1000)),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
