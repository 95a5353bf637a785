//! Settings from the environment and from `.env`, read once and made into a sandbox spec.
//!
//! A `.env` that lies inside the workspace is not read: what a sandbox can write must not
//! decide how the next sandbox is built.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use audit::AuditLog;
use etcetera::BaseStrategy;
use sandbox::{Backend, Limits, Network, RootSpec, SandboxSpec};

use crate::args::SandboxFlags;
use crate::complaint::{Complaint, FAILED, warn};

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
        let use_sandbox = match get("USE_SANDBOX").as_deref() {
            None | Some("" | "true" | "1" | "yes" | "on") => true,
            Some("false" | "0" | "no" | "off") => false,
            Some(other) => {
                let text = format!("USE_SANDBOX is `{other}`, which is neither true nor false");
                return Err(Complaint::usage(text).hint("set it to `true`".to_owned()));
            }
        };
        Ok(Self {
            safedir: get("SAFEDIR")
                .filter(|text| !text.is_empty())
                .map(PathBuf::from),
            use_sandbox,
        })
    }
}

fn read_dotenv(named_workspace: Option<&Path>) -> Result<HashMap<String, String>, Complaint> {
    let path = Path::new(".env");
    if !path.exists() {
        return Ok(HashMap::new());
    }
    let unreadable =
        |error: dotenvy::Error| Complaint::usage(format!("cannot read `.env`: {error}"));
    let pairs: HashMap<String, String> = dotenvy::from_path_iter(path)
        .map_err(unreadable)?
        .collect::<Result<_, _>>()
        .map_err(unreadable)?;
    let named = std::env::var_os("SAFEDIR").map(PathBuf::from);
    let from_file = pairs.get("SAFEDIR").map(PathBuf::from);
    let candidates = [named_workspace.map(Path::to_owned), named, from_file];
    let here = fs::canonicalize(".").unwrap_or_default();
    let is_inside = candidates.into_iter().flatten().any(|workspace| {
        fs::canonicalize(workspace).is_ok_and(|workspace| here.starts_with(workspace))
    });
    if is_inside {
        warn("`.env` is not read: it lies inside the workspace, where a sandbox can write");
        return Ok(HashMap::new());
    }
    Ok(pairs)
}

/// Makes a spec of flags and settings. Creates the default workspace, and nothing else.
pub(crate) fn sandbox_spec(flags: &SandboxFlags) -> Result<SandboxSpec, Complaint> {
    let settings = Settings::read(flags.workspace.as_deref())?;
    let network = network(&flags.allow_net)?;
    let root = match &flags.rootfs {
        Some(folder) => RootSpec::Image(existing_folder(folder, "--rootfs")?),
        None => RootSpec::Host,
    };
    let backend = match flags.backend.as_deref() {
        Some("native") => Backend::Native,
        Some("none") => Backend::None,
        Some(_) => Backend::Auto,
        None if settings.use_sandbox => Backend::Auto,
        None => Backend::None,
    };
    let mut spec = SandboxSpec::new(workspace(flags, &settings)?);
    spec.backend = backend;
    spec.root = root;
    spec.limits = limits(flags);
    spec.strict_limits = flags.strict_limits;
    spec.network = network;
    if backend == Backend::None {
        refuse_with_none(flags)?;
        warn("WARNING: no sandbox: the command can read and change everything that you can");
        spec.env = std::env::vars().collect();
    }
    spec.audit = audit_log(flags)?;
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

fn workspace(flags: &SandboxFlags, settings: &Settings) -> Result<PathBuf, Complaint> {
    let folder = match (&flags.workspace, &settings.safedir) {
        (Some(named), _) => existing_folder(named, "--workspace")?,
        (None, default) => {
            let folder = default
                .clone()
                .unwrap_or_else(|| PathBuf::from("./workspace"));
            fs::create_dir_all(&folder).map_err(|error| {
                let text = format!("cannot make the workspace `{}`: {error}", folder.display());
                Complaint::usage(text).hint("name another with `--workspace`".to_owned())
            })?;
            existing_folder(&folder, "SAFEDIR")?
        }
    };
    if folder == Path::new("/") {
        let text = "the workspace is `/`: that would show the whole machine to the sandbox";
        return Err(Complaint::usage(text).hint("name a project folder".to_owned()));
    }
    Ok(folder)
}

fn existing_folder(folder: &Path, flag: &str) -> Result<PathBuf, Complaint> {
    let complain = |why: &dyn std::fmt::Display| {
        let shown = folder.display();
        Complaint::usage(format!("cannot use `{shown}` for {flag}: {why}"))
            .hint(format!("name an existing folder, or `mkdir -p {shown}`"))
    };
    match fs::canonicalize(folder) {
        Ok(path) if path.is_dir() => Ok(path),
        Ok(_) => Err(complain(&"it is not a folder")),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Err(complain(&"there is no such folder"))
        }
        Err(error) => Err(complain(&error)),
    }
}

fn audit_log(flags: &SandboxFlags) -> Result<Option<Arc<AuditLog>>, Complaint> {
    if flags.no_audit {
        return Ok(None);
    }
    let path = match &flags.audit {
        Some(path) => path.clone(),
        None => state_folder()?.join("audit.jsonl"),
    };
    let log = AuditLog::open(path).map_err(|error| {
        Complaint::from_error(FAILED, &error)
            .hint("choose a file with `--audit FILE`, or `--no-audit`".to_owned())
    })?;
    Ok(Some(Arc::new(log)))
}

/// For things that can be made again.
pub(crate) fn cache_folder() -> Option<PathBuf> {
    let strategy = etcetera::base_strategy::choose_base_strategy().ok()?;
    Some(strategy.cache_dir().join("hotcell"))
}

fn state_folder() -> Result<PathBuf, Complaint> {
    let strategy = etcetera::base_strategy::choose_base_strategy().map_err(|error| {
        Complaint::new(FAILED, format!("cannot find the user's folders: {error}"))
            .hint("set HOME, or choose a file with `--audit FILE`".to_owned())
    })?;
    let folder = strategy.state_dir().unwrap_or_else(|| strategy.data_dir());
    Ok(folder.join("hotcell"))
}
