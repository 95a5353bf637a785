//! Build, import and pull: the commands that add an image to the store.

use std::fs;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use images::{
    HostPrograms, ImageError, PackageSources, Recipe, RegistryLogin, RegistryOptions, Reuse,
    SHIPPED_RECIPES, StoredImage, default_image_name, logins, registry_of,
};

use super::progress::ImageProgressReporter;
use super::{open, print, size};
use crate::args::{ImageBuildFlags, StoreFlags};
use crate::cli_error::CliError;
use crate::commands::runtime;

/// Variables that name proxies; both lower and upper case are used.
const PROXY_VARIABLES: [&str; 4] = ["http_proxy", "https_proxy", "no_proxy", "all_proxy"];

/// Where distributions store trusted certificates.
const CERTIFICATE_BUNDLES: [&str; 3] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
];

pub(super) fn build(build: &ImageBuildFlags) -> Result<u8, CliError> {
    let (usual, recipe) = recipe(&build.recipe)?;
    let name = match (&build.name, usual) {
        (Some(name), _) => name.clone(),
        (None, Some(usual)) => usual,
        (None, None) => {
            return Err(CliError::usage(format!(
                "cannot derive an image name from `{}`",
                build.recipe
            ))
            .hint("give it one with `--name`".to_owned()));
        }
    };
    images::check_name(&name)?;
    let reuse = if build.fresh {
        Reuse::Never
    } else {
        Reuse::Allowed
    };
    let store = open(&build.store)?;
    let mut reporter = ImageProgressReporter::default();
    let image = store.build(&name, &recipe, &sources(), reuse, &mut |step| {
        reporter.tell(step);
    })?;
    print_image(&image)
}

/// A recipe and the default name of its image.
fn recipe(word: &str) -> Result<(Option<String>, Recipe), CliError> {
    if let Some(recipe) = Recipe::shipped(word) {
        return Ok((Some(word.to_owned()), recipe?));
    }
    let path = Path::new(word);
    let is_path = word.contains('/') || path.extension().is_some_and(|end| end == "toml");
    if !is_path {
        let shipped: Vec<&str> = SHIPPED_RECIPES.iter().map(|(name, _)| *name).collect();
        return Err(
            CliError::usage(format!("there is no recipe `{word}`")).hint(format!(
                "there are {}; a file is written as `./{word}.toml`",
                shipped.join(", ")
            )),
        );
    }
    let recipe = Recipe::read(path)?;
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    Ok((stem.map(str::to_owned), recipe))
}

/// Package sources of this machine.
fn sources() -> PackageSources {
    let mut sources = PackageSources::of_host(Path::new("/etc/apt"), &HostPrograms::default());
    for name in PROXY_VARIABLES {
        for name in [name.to_owned(), name.to_uppercase()] {
            if let Ok(value) = std::env::var(&name) {
                sources.env.push((name, value));
            }
        }
    }
    sources.certificates = CERTIFICATE_BUNDLES
        .iter()
        .find_map(|path| fs::read(path).ok());
    sources
}

pub(super) fn import(
    flags: &StoreFlags,
    name: &str,
    file: &Path,
    reference: Option<&str>,
) -> Result<u8, CliError> {
    images::check_name(name)?;
    let path = if file == Path::new("-") {
        PathBuf::from("/dev/stdin")
    } else {
        file.to_owned()
    };
    // Before anything is created.
    let why = match fs::metadata(&path) {
        Ok(about) if about.is_dir() => Some("it is a folder".to_owned()),
        Ok(_) => None,
        Err(error) => Some(error.to_string()),
    };
    if let Some(why) = why {
        let text = format!("cannot read the archive `{}`: {why}", file.display());
        return Err(CliError::usage(text).hint(
            "`docker save -o FILE IMAGE` and `podman save -o FILE IMAGE` write one".to_owned(),
        ));
    }
    let mut reporter = ImageProgressReporter::default();
    let image = open(flags)?.import(name, &path, reference, &mut |step| reporter.tell(step))?;
    print_image(&image)
}

pub(super) fn pull(
    flags: &StoreFlags,
    reference: &str,
    name: Option<&str>,
    is_insecure: bool,
) -> Result<u8, CliError> {
    let name = match name {
        Some(name) => name.to_owned(),
        None => default_image_name(reference)?,
    };
    images::check_name(&name)?;
    let registry = RegistryOptions {
        login: login(&registry_of(reference)?),
        is_insecure,
    };
    let store = open(flags)?;
    let mut reporter = ImageProgressReporter::default();
    let image = runtime()?.block_on(async {
        let mut tell = |step: images::ImageProgress<'_>| reporter.tell(step);
        tokio::select! {
            image = store.pull(&name, reference, &registry, &mut tell) => {
                image.map(Some)
            }
            _ = tokio::signal::ctrl_c() => Ok::<_, ImageError>(None),
        }
    })?;
    match image {
        Some(image) => print_image(&image),
        None => Ok(130),
    }
}

/// The credentials that Podman or Docker store for a registry.
fn login(registry: &str) -> RegistryLogin {
    let named = std::env::var_os("REGISTRY_AUTH_FILE").map(PathBuf::from);
    let podman = std::env::var_os("XDG_RUNTIME_DIR")
        .map(|folder| PathBuf::from(folder).join("containers/auth.json"));
    let strategy = etcetera::base_strategy::choose_base_strategy().ok();
    let config = strategy
        .as_ref()
        .map(|strategy| strategy.config_dir().join("containers/auth.json"));
    let docker = strategy.map(|strategy| strategy.home_dir().join(".docker/config.json"));
    let files = match named {
        Some(named) => vec![named],
        None => [podman, config, docker].into_iter().flatten().collect(),
    };
    let texts = files
        .iter()
        .filter_map(|path| fs::read_to_string(path).ok());
    texts
        .map(|text| logins(&text, registry))
        .find(|login| matches!(login, RegistryLogin::Password { .. }))
        .unwrap_or_default()
}

fn print_image(image: &StoredImage) -> Result<u8, CliError> {
    print(&format!(
        "{}  {}  {}\n",
        image.name,
        image.digest.short(),
        size(image.bytes)
    ))
}
