//! Settings from the environment and from `.env`, read once and made into a sandbox spec.
//!
//! A `.env` that lies inside the workspace is not read: what a sandbox can write must not
//! decide how the next sandbox is built.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::AuditLog;
use etcetera::BaseStrategy;
use sandbox::{Backend, Limits, Network, RootSpec, SandboxSpec};

use crate::args::SandboxFlags;
use crate::complaint::{Complaint, FAILED, USAGE, warn};

/// Variables that hotcell understands.
pub(crate) struct Settings {
    safedir: Option<PathBuf>,
    use_sandbox: bool,
}

impl Settings {
    /// The environment wins over `.env` in the current folder.
    pub(crate) fn read(named_workspace: Option<&Path>) -> Result<Self, Complaint> {
        let from_file = read_dotenv(named_workspace)?;
        let get = |name: &str| {
            std::env::var(name)
                .ok()
                .or_else(|| from_file.get(name).cloned())
        };
        let use_sandbox = switch(get("USE_SANDBOX"))?;
        let is_from_file = std::env::var_os("USE_SANDBOX").is_none();
        if !use_sandbox && is_from_file {
            // The file may be what an earlier sandbox left in what was its workspace.
            warn(
                "`.env` cannot switch the sandbox off: it stays on\n\
                 hint: `--backend none`, or USE_SANDBOX=false in the environment",
            );
        }
        Ok(Self {
            safedir: get("SAFEDIR")
                .filter(|text| !text.is_empty())
                .map(PathBuf::from),
            use_sandbox: use_sandbox || is_from_file,
        })
    }
}

/// USE_SANDBOX as people write it; on unless it says otherwise.
fn switch(value: Option<String>) -> Result<bool, Complaint> {
    match value.as_deref() {
        None | Some("" | "true" | "1" | "yes" | "on") => Ok(true),
        Some("false" | "0" | "no" | "off") => Ok(false),
        Some(other) => {
            let text = format!("USE_SANDBOX is `{other}`, which is neither true nor false");
            Err(Complaint::usage(text).hint("set it to `true`".to_owned()))
        }
    }
}

fn read_dotenv(named_workspace: Option<&Path>) -> Result<HashMap<String, String>, Complaint> {
    let path = Path::new(".env");
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let here = fs::canonicalize(".").unwrap_or_default();
    let is_inside = |workspace: Option<PathBuf>| {
        let workspace = workspace.and_then(|folder| fs::canonicalize(folder).ok());
        workspace.is_some_and(|workspace| here.starts_with(workspace))
    };
    let not_read = || {
        warn("`.env` is not read: it lies inside the workspace, where a sandbox can write");
        Ok(HashMap::new())
    };
    // Before a look at it: what stands there may be no `.env` at all.
    let named = std::env::var_os("SAFEDIR").map(PathBuf::from);
    if is_inside(named_workspace.map(Path::to_owned)) || is_inside(named) {
        return not_read();
    }
    let unreadable =
        |error: dotenvy::Error| Complaint::usage(format!("cannot read `.env`: {error}"));
    let pairs: HashMap<String, String> = dotenvy::from_path_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    match is_inside(pairs.get("SAFEDIR").map(PathBuf::from)) {
        true => not_read(),
        false => Ok(pairs),
    }
}

/// Makes a spec of flags and settings. Everything is checked before anything is made: the audit
/// log and the default workspace.
pub(crate) fn sandbox_spec(flags: &SandboxFlags) -> Result<SandboxSpec, Complaint> {
    let settings = Settings::read(flags.workspace.as_deref())?;
    let network = network(&flags.allow_net)?;
    let root = match &flags.rootfs {
        Some(folder) => RootSpec::Image(image(folder)?),
        None => RootSpec::Host,
    };
    let backend = match flags.backend.as_deref() {
        Some("native") => Backend::Native,
        Some("none") => Backend::None,
        Some(_) => Backend::Auto,
        None if settings.use_sandbox => Backend::Auto,
        None => Backend::None,
    };
    if backend == Backend::None {
        refuse_with_none(flags)?;
    }
    let workspace = workspace(flags, &settings)?;
    let audit = audit_log(flags, &workspace)?;
    let mut spec = SandboxSpec::new(make_folder(workspace)?);
    spec.audit = audit;
    spec.backend = backend;
    spec.root = root;
    spec.limits = limits(flags);
    spec.strict_limits = flags.strict_limits;
    spec.network = network;
    if backend == Backend::None {
        warn("WARNING: no sandbox: the command can read and change everything that you can");
        // A variable that is no text cannot be passed on.
        let text = |(name, value): (OsString, OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        spec.env = std::env::vars_os().filter_map(text).collect();
    }
    Ok(spec)
}

fn limits(flags: &SandboxFlags) -> Limits {
    let default = Limits::default();
    Limits {
        memory: flags.memory.unwrap_or(default.memory),
        cpus: flags.cpus.unwrap_or(default.cpus),
        pids: flags.pids.unwrap_or(default.pids),
        disk: flags.disk.unwrap_or(default.disk),
        open_files: flags.open_files.unwrap_or(default.open_files),
        wall: None,
        output: flags.max_output,
    }
}

fn network(rules: &[String]) -> Result<Network, Complaint> {
    if rules.is_empty() {
        return Ok(Network::Off);
    }
    match egress::Allow::parse(rules) {
        Ok(allow) => Ok(Network::Allow(allow)),
        Err(error) => Err(Complaint::from_error(2, &error)
            .hint("write `example.com`, `*.example.com` or `host:port`".to_owned())),
    }
}

/// What only walls can give must not seem to be there without them.
fn refuse_with_none(flags: &SandboxFlags) -> Result<(), Complaint> {
    let refused = |flag: &str| {
        Complaint::usage(format!("`{flag}` means nothing without walls"))
            .hint("drop it, or drop `--backend none`".to_owned())
    };
    match () {
        () if flags.rootfs.is_some() => Err(refused("--rootfs")),
        () if !flags.allow_net.is_empty() => Err(refused("--allow-net")),
        () => Ok(()),
    }
}

/// Where the workspace is or, if it is the default one, is to be.
fn workspace(flags: &SandboxFlags, settings: &Settings) -> Result<PathBuf, Complaint> {
    let folder = match (&flags.workspace, &settings.safedir) {
        (Some(named), _) => existing_folder(named, "--workspace")?,
        (None, Some(named)) => folder_or_room(named, "SAFEDIR")?,
        (None, None) => folder_or_room(Path::new("./workspace"), "the workspace")?,
    };
    if folder == Path::new("/") {
        let text = "the workspace is `/`: that would show the whole machine to the sandbox";
        return Err(Complaint::usage(text).hint("name a project folder".to_owned()));
    }
    Ok(folder)
}

/// A folder that is there, or a path at which one can be made.
fn folder_or_room(folder: &Path, role: &str) -> Result<PathBuf, Complaint> {
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

fn make_folder(folder: PathBuf) -> Result<PathBuf, Complaint> {
    fs::create_dir_all(&folder)
        .and_then(|()| fs::canonicalize(&folder))
        .map_err(|error| not_made(&folder, &error))
}

fn not_made(folder: &Path, why: &dyn std::fmt::Display) -> Complaint {
    let text = format!("cannot make the workspace `{}`: {why}", folder.display());
    Complaint::usage(text).hint("name another with `--workspace`".to_owned())
}

fn image(folder: &Path) -> Result<PathBuf, Complaint> {
    let folder = existing_folder(folder, "--rootfs")?;
    if folder == Path::new("/") {
        let text = "the root file system is `/`: that would show the whole machine to the sandbox";
        return Err(Complaint::usage(text)
            .hint("leave `--rootfs` out to use the host's programs".to_owned()));
    }
    Ok(folder)
}

fn existing_folder(folder: &Path, role: &str) -> Result<PathBuf, Complaint> {
    let shown = folder.display();
    let complain = |why: &dyn std::fmt::Display| {
        Complaint::usage(format!("cannot use `{shown}` for {role}: {why}"))
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

fn audit_log(flags: &SandboxFlags, workspace: &Path) -> Result<Option<Arc<AuditLog>>, Complaint> {
    if flags.no_audit {
        return Ok(None);
    }
    let (path, code) = match &flags.audit {
        Some(path) => (path.clone(), USAGE),
        None => (state_folder()?.join("audit.jsonl"), FAILED),
    };
    if destination(&path).starts_with(destination(workspace)) {
        let text = format!(
            "the audit log `{}` lies inside the workspace",
            path.display()
        );
        return Err(Complaint::usage(text).hint(
            "a sandbox could rewrite it: choose another file with `--audit FILE`".to_owned(),
        ));
    }
    let log = AuditLog::open(path).map_err(|error| {
        Complaint::from_error(code, &error)
            .hint("choose a file with `--audit FILE`, or `--no-audit`".to_owned())
    })?;
    Ok(Some(Arc::new(log)))
}

/// Where a path leads, though the end of it may not be there yet.
fn destination(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    for there in path.ancestors() {
        if let Ok(real) = fs::canonicalize(there) {
            return real.join(path.strip_prefix(there).unwrap_or(Path::new("")));
        }
    }
    path
}

fn state_folder() -> Result<PathBuf, Complaint> {
    let strategy = etcetera::base_strategy::choose_base_strategy().map_err(|error| {
        Complaint::new(FAILED, format!("cannot find the user's folders: {error}"))
            .hint("set HOME, or choose a file with `--audit FILE`".to_owned())
    })?;
    let folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(folder.join("hotcell"))
}
