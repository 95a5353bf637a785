//! What backends use on this machine: settings and environment become provisions, and a name becomes an
//! image.

use std::env;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;
use images::StoredImage;
use sandbox::{Backend, BackendConfig, RootSpec, SandboxSpec};

use super::Settings;
use super::sandbox::{data_folder, destination};
use crate::args::{StoreFlags, WallFlags};
use crate::cli_error::{CliError, USAGE_ERROR};

/// The default image of backends that require one.
const DEFAULT_IMAGE: &str = "base";

/// Environment variables of an image.
type ImageVariables = Vec<(String, String)>;

/// Everything that does not depend on a workspace.
pub(crate) fn provisions(settings: &Settings, backend: Backend) -> Result<BackendConfig, CliError> {
    let text = |name: &str| settings.get(name).map(|setting| setting.value.clone());
    let path = |name: &str| text(name).map(PathBuf::from);
    let mut provisions = BackendConfig::default();
    if let Some(cache) = path("backends.cache").or_else(user_cache) {
        provisions.cache = cache;
    }
    // A store that cannot be read has no default image; naming an image reports the reason.
    let base = images::ImageStore::open(image_folder(settings)?).find(DEFAULT_IMAGE);
    provisions.default_image = base.ok().flatten().map(|image| image.root);
    let containers = &mut provisions.containers;
    containers.podman_runtime = text("backends.podman_runtime");
    let docker_host = env::var("DOCKER_HOST").ok().filter(|host| !host.is_empty());
    match (path("backends.docker_socket"), docker_host) {
        (Some(socket), _) => containers.docker_socket = socket,
        (None, Some(host)) => match host.strip_prefix("unix://") {
            Some(socket) => containers.docker_socket = socket.into(),
            None if backend == Backend::Docker => {
                let text =
                    format!("`DOCKER_HOST` is `{host}`: it must be a socket on this machine");
                return Err(CliError::usage(text).hint(
                    "a sandbox's folder is here: name a daemon of this machine, such as \
                     `unix:///var/run/docker.sock`"
                        .to_owned(),
                ));
            }
            None => {}
        },
        (None, None) => {}
    }
    let gvisor = &mut provisions.gvisor;
    gvisor.platform = text("backends.gvisor_platform");
    let machines = &mut provisions.machines;
    machines.kernel = path("backends.kernel");
    machines.modules = path("backends.modules");
    for (name, program) in [
        ("backends.podman", &mut containers.podman),
        ("backends.runsc", &mut gvisor.runsc),
        ("backends.qemu", &mut machines.qemu),
        ("backends.firecracker", &mut machines.firecracker),
        ("backends.jailer", &mut machines.jailer),
        ("backends.microsandbox", &mut machines.microsandbox),
    ] {
        match path(name) {
            Some(named) => *program = named,
            // Looked up in PATH; a missing program keeps its name, for messages.
            None => *program = find_in_path(program).unwrap_or_else(|| program.clone()),
        }
    }
    Ok(provisions)
}

/// The root that a flag or a setting names, and its variables.
pub(super) fn image(
    flags: &WallFlags,
    settings: &Settings,
) -> Result<(RootSpec, ImageVariables), CliError> {
    let named = match (&flags.image, settings.get("image")) {
        (Some(name), _) => name,
        (None, Some(setting)) => &setting.value,
        (None, None) => return Ok((RootSpec::Host, Vec::new())),
    };
    let found = images::ImageStore::open(image_folder(settings)?)
        .find(named)
        .map_err(|error| {
            CliError::from_error(USAGE_ERROR, &error)
                .hint("`hotcell image list` lists images".to_owned())
        })?;
    let Some(StoredImage { root, env, .. }) = found else {
        return Err(CliError::usage(format!("there is no image `{named}`"))
            .hint("`hotcell image list` lists images".to_owned()));
    };
    Ok((RootSpec::Image(root), env))
}

fn image_folder(settings: &Settings) -> Result<PathBuf, CliError> {
    let flags = StoreFlags {
        data: settings
            .data
            .clone()
            .or_else(|| env::var_os("HOTCELL_DATA").map(PathBuf::from)),
        config: None,
    };
    Ok(data_folder(&flags, None)?.join("images"))
}

/// What a sandbox can rewrite must not be used to start the next one.
pub(super) fn refuse_inside_workspace(
    spec: &mut SandboxSpec,
    settings: &Settings,
    workspace: &Path,
) -> Result<(), CliError> {
    let workspace = destination(workspace);
    let is_inside = |path: &Path| destination(path).starts_with(&workspace);
    let complain = |what: &str, path: &Path| {
        let text = format!("{what} `{}` lies inside the workspace", path.display());
        CliError::usage(text)
    };
    let images = image_folder(settings)?;
    if let RootSpec::Image(root) = &spec.root
        && root.starts_with(&images)
        && is_inside(root)
    {
        return Err(complain("the image", root).hint(
            "a sandbox could rewrite it: choose another folder with `--data FOLDER`".to_owned(),
        ));
    }
    let provisions = &spec.provisions;
    let has_image_inside = provisions.default_image.as_deref().is_some_and(is_inside);
    let has_cache_inside = is_inside(&provisions.cache);
    if !has_image_inside && !has_cache_inside {
        return Ok(());
    }
    if has_cache_inside && settings.get("backends.cache").is_some() {
        return Err(complain("the cache", &provisions.cache).hint(
            "a sandbox could rewrite it: set `backends.cache` to another folder".to_owned(),
        ));
    }
    let mut kept = BackendConfig::clone(provisions);
    if has_image_inside {
        kept.default_image = None;
    }
    if has_cache_inside {
        kept.cache = BackendConfig::default().cache;
    }
    spec.provisions = kept.into();
    Ok(())
}

fn user_cache() -> Option<PathBuf> {
    let strategy = etcetera::base_strategy::choose_base_strategy().ok()?;
    Some(strategy.cache_dir().join("hotcell"))
}

fn find_in_path(program: &Path) -> Option<PathBuf> {
    let folders = env::var_os("PATH")?;
    env::split_paths(&folders)
        // Relative entries would depend on the current folder.
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(program))
        .find(|file| file.is_file())
}
