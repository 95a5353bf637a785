//! Converts flags and settings to a sandbox spec.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::AuditLog;
use etcetera::BaseStrategy;
use protocol::Limits;
use sandbox::{Backend, Network, RootSpec, SandboxLimits, SandboxSpec, Strength};

use super::keys::DEFAULT_WORKSPACE;
use super::{Settings, backends, links, parse_switch, sockets};
use crate::args::{SandboxFlags, StoreFlags, WallFlags};
use crate::cli_error::{CliError, SANDBOX_FAILED, USAGE_ERROR, warn};

/// Builds a spec from flags and settings. Everything is checked before the audit log and the default
/// workspace are created.
pub(crate) fn sandbox_spec(
    flags: &SandboxFlags,
    settings: &Settings,
) -> Result<SandboxSpec, CliError> {
    let mut spec = walls(&flags.walls, settings)?;
    let workspace = workspace(flags, settings)?;
    refuse_settings_inside(settings, &workspace)?;
    backends::refuse_inside_workspace(&mut spec, settings, &workspace)?;
    spec.audit = audit_log(flags, &workspace)?;
    spec.workspace = make_folder(&workspace)?;
    // Since the check, a sandbox around it may have replaced it by a link.
    if flags.workspace.is_none() {
        links::refuse_links_below_current(&workspace)?;
    }
    if spec.backend.strength() <= Strength::Namespaces && spec.require <= Strength::Namespaces {
        sockets::warn_about_sockets(&spec.workspace);
    }
    if spec.backend == Backend::None {
        warn("WARNING: no sandbox: the command can read and change everything that you can");
        // A variable that is not UTF-8 cannot be passed on.
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        spec.env = std::env::vars_os().filter_map(text).collect();
    }
    Ok(spec)
}

/// A spec without workspace and audit log.
pub(crate) fn walls(flags: &WallFlags, settings: &Settings) -> Result<SandboxSpec, CliError> {
    let is_on = settings.parse("sandbox", parse_switch)?.unwrap_or(true);
    let network = network(&flags.allow_net)?;
    let backend = match flags.backend.as_deref().and_then(Backend::named) {
        Some(named) => named,
        None if is_on => settings
            .parse("backend", parse_backend)?
            .unwrap_or_default(),
        None => Backend::None,
    };
    let require = match flags.require.as_deref().and_then(Strength::named) {
        Some(named) => named,
        None => settings
            .parse("require", parse_strength)?
            .unwrap_or_default(),
    };
    if backend == Backend::None {
        refuse_flags_without_walls(flags)?;
    }
    refuse_weak_backend(backend, require)?;
    let (root, env) = match &flags.rootfs {
        Some(folder) => (RootSpec::Image(rootfs_folder(folder)?), Vec::new()),
        None if backend == Backend::None => (RootSpec::Host, Vec::new()),
        None => backends::image(flags, settings)?,
    };
    Ok(SandboxSpec {
        backend,
        require,
        root,
        env,
        provisions: Arc::new(backends::provisions(settings, backend)?),
        limits: limits(flags)?,
        strict_limits: flags.strict_limits,
        network,
        ..SandboxSpec::new(PathBuf::new())
    })
}

fn parse_backend(text: &str) -> Result<Backend, String> {
    // Running without walls is the setting `sandbox`, which warns at every start.
    match Backend::named(text) {
        Some(Backend::None) => Err("to run without walls, set `sandbox = false`".to_owned()),
        Some(backend) => Ok(backend),
        None => Err("there is no such backend".to_owned()),
    }
}

fn parse_strength(text: &str) -> Result<Strength, String> {
    Strength::named(text).ok_or_else(|| "it must be namespaces, kernel or vm".to_owned())
}

/// Fails if the backend is weaker than required.
fn refuse_weak_backend(backend: Backend, require: Strength) -> Result<(), CliError> {
    if backend == Backend::Auto || backend.strength() >= require {
        return Ok(());
    }
    let has = match backend {
        Backend::None => "there are no walls".to_owned(),
        _ => format!(
            "the walls of `{backend}` are `{}`",
            backend.strength().name()
        ),
    };
    let required = require.name();
    Err(
        CliError::usage(format!("{has}, and `{required}` is required"))
            .hint("`--backend auto` selects a backend that is strong enough".to_owned()),
    )
}

fn limits(flags: &WallFlags) -> Result<SandboxLimits, CliError> {
    let requested = Limits {
        memory: flags.memory,
        cpus: flags.cpus,
        pids: flags.pids,
        disk: flags.disk,
        open_files: flags.open_files,
    };
    let limits = SandboxLimits {
        output: flags.max_output,
        ..SandboxLimits::default().with(&requested)
    };
    limits
        .check()
        .map_err(|error| CliError::usage(error.to_string()))?;
    Ok(limits)
}

fn network(rules: &[String]) -> Result<Network, CliError> {
    if rules.is_empty() {
        return Ok(Network::Off);
    }
    match egress::AllowList::parse(rules) {
        Ok(allow) => Ok(Network::Allow(allow)),
        Err(error) => Err(CliError::from_error(2, &error)
            .hint("write `example.com`, `*.example.com` or `host:port`".to_owned())),
    }
}

/// Refuses flags that only walls can enforce.
fn refuse_flags_without_walls(flags: &WallFlags) -> Result<(), CliError> {
    let refused = |flag: &str| {
        CliError::usage(format!("`{flag}` requires walls"))
            .hint("drop it, or drop `--backend none`".to_owned())
    };
    match () {
        () if flags.rootfs.is_some() => Err(refused("--rootfs")),
        () if flags.image.is_some() => Err(refused("--image")),
        () if !flags.allow_net.is_empty() => Err(refused("--allow-net")),
        () => Ok(()),
    }
}

/// The workspace, or the path where the default one will be created.
pub(crate) fn workspace(flags: &SandboxFlags, settings: &Settings) -> Result<PathBuf, CliError> {
    let folder = match (&flags.workspace, settings.get("workspace")) {
        // Typed by the user, so it may be a link.
        (Some(named), _) => existing_folder(named, "--workspace")?,
        (None, named) => {
            let path = named.map_or(DEFAULT_WORKSPACE, |named| &named.value);
            let is_variable = named.is_some_and(|named| named.source.is_variable());
            let role = if is_variable {
                "SAFEDIR"
            } else {
                "the workspace"
            };
            links::refuse_links_below_current(Path::new(path))?;
            existing_or_creatable(Path::new(path), role)?
        }
    };
    if folder == Path::new("/") {
        let text = "the workspace is `/`: that would show the whole machine to the sandbox";
        return Err(CliError::usage(text).hint("name a project folder".to_owned()));
    }
    Ok(folder)
}

/// The settings configure the next sandbox, so a sandbox must not be able to write them.
fn refuse_settings_inside(settings: &Settings, workspace: &Path) -> Result<(), CliError> {
    let Some(file) = &settings.file else {
        return Ok(());
    };
    if !destination(file).starts_with(destination(workspace)) {
        return Ok(());
    }
    let text = format!("the settings `{}` lie inside the workspace", file.display());
    Err(CliError::usage(text).hint(
        "a sandbox could rewrite them: choose another workspace, or another settings file with \
         `--config FILE`"
            .to_owned(),
    ))
}

/// An existing folder, or a path where one can be created.
fn existing_or_creatable(folder: &Path, role: &str) -> Result<PathBuf, CliError> {
    let mut above = folder.ancestors().skip_while(|path| !path.exists());
    match above.next() {
        Some(found) if found == folder => existing_folder(folder, role),
        Some(found) if !found.is_dir() && found != Path::new("") => Err(not_made(
            folder,
            &format!("`{}` is not a folder", found.display()),
        )),
        _ => Ok(folder.to_owned()),
    }
}

fn make_folder(folder: &Path) -> Result<PathBuf, CliError> {
    fs::create_dir_all(folder)
        .and_then(|()| fs::canonicalize(folder))
        .map_err(|error| not_made(folder, &error))
}

fn not_made(folder: &Path, why: &dyn std::fmt::Display) -> CliError {
    let text = format!("cannot create the workspace `{}`: {why}", folder.display());
    CliError::usage(text).hint("name another with `--workspace`".to_owned())
}

fn rootfs_folder(folder: &Path) -> Result<PathBuf, CliError> {
    let folder = existing_folder(folder, "--rootfs")?;
    if folder == Path::new("/") {
        let text = "the root file system is `/`: that would show the whole machine to the sandbox";
        return Err(
            CliError::usage(text).hint("omit `--rootfs` to use the host's programs".to_owned())
        );
    }
    Ok(folder)
}

fn existing_folder(folder: &Path, role: &str) -> Result<PathBuf, CliError> {
    let shown = folder.display();
    let complain = |why: &dyn std::fmt::Display| {
        CliError::usage(format!("cannot use `{shown}` for {role}: {why}"))
    };
    match fs::canonicalize(folder) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(complain(&"it is not a folder").hint("name a folder".to_owned())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(complain(&"there is no such folder")
                .hint(format!("name an existing folder, or `mkdir -p {shown}`")))
        }
        Err(error) => Err(complain(&error).hint("name another folder".to_owned())),
    }
}

fn audit_log(flags: &SandboxFlags, workspace: &Path) -> Result<Option<Arc<AuditLog>>, CliError> {
    if flags.no_audit {
        return Ok(None);
    }
    let (path, code) = match &flags.audit {
        Some(path) => (path.clone(), USAGE_ERROR),
        None => (state_folder()?.join("audit.jsonl"), SANDBOX_FAILED),
    };
    if destination(&path).starts_with(destination(workspace)) {
        let text = format!(
            "the audit log `{}` lies inside the workspace",
            path.display()
        );
        return Err(CliError::usage(text).hint(
            "a sandbox could rewrite it: choose another file with `--audit FILE`".to_owned(),
        ));
    }
    let log = AuditLog::open(path).map_err(|error| {
        CliError::from_error(code, &error)
            .hint("choose a file with `--audit FILE`, or `--no-audit`".to_owned())
    })?;
    Ok(Some(Arc::new(log)))
}

/// The real path of a file or folder whose last parts may not exist yet.
pub(super) fn destination(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let Ok(real) = fs::canonicalize(there) {
            return real.join(path.strip_prefix(there).unwrap_or(Path::new("")));
        }
    }
    path
}

/// The data folder. Never inside the workspace: it holds what undo restores, and a sandbox could
/// rewrite it.
pub(crate) fn data_folder(
    flags: &StoreFlags,
    workspace: Option<&Path>,
) -> Result<PathBuf, CliError> {
    let folder = match &flags.data {
        Some(folder) => folder.clone(),
        None => etcetera::base_strategy::choose_base_strategy()
            .map_err(|error| {
                CliError::new(
                    SANDBOX_FAILED,
                    format!("cannot find the user's folders: {error}"),
                )
                .hint("set HOME, or choose a folder with `--data FOLDER`".to_owned())
            })?
            .data_dir()
            .join("hotcell"),
    };
    if workspace.is_some_and(|workspace| destination(&folder).starts_with(destination(workspace))) {
        let text = format!(
            "the session store `{}` lies inside the workspace",
            folder.display()
        );
        return Err(CliError::usage(text).hint(
            "a sandbox could rewrite it: choose another folder with `--data FOLDER`".to_owned(),
        ));
    }
    Ok(folder)
}

pub(super) fn state_folder() -> Result<PathBuf, CliError> {
    let strategy = etcetera::base_strategy::choose_base_strategy().map_err(|error| {
        CliError::new(
            SANDBOX_FAILED,
            format!("cannot find the user's folders: {error}"),
        )
        .hint("set HOME, or choose a file with `--audit FILE`".to_owned())
    })?;
    let folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(folder.join("hotcell"))
}
