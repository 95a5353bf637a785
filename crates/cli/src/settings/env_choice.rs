//! Decides whether an env file is used: warns about variables that it may not set, and asks the user about
//! the rest. Entry points: [`env_file_to_use`] and [`confirm`].

use std::fs;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

use nix::sys::termios::{FlushArg, tcflush};

use super::SettingOverrides;
use super::env_file::{DEFAULT_ENV_FILE, EnvFile};
use super::env_trust::{EnvTrustRecord, EnvVerdict};
use super::sources;
use crate::cli_error::{CliError, warn};
use crate::render::clean;

const REFUSED_VARIABLE_HINT: &str = "such a file may set keys and the model only: use a flag, the environment \
                            or the settings file";

/// The env file to use, if there is one. `wants_model` is false for commands that need neither keys nor a
/// model: they only warn about variables that it may not set.
pub(super) fn env_file_to_use(
    named: Option<&Path>,
    workspaces: &[PathBuf],
    wants_model: bool,
) -> Result<Option<EnvFile>, CliError> {
    match named {
        Some(path) => read_named(path, workspaces).map(Some),
        None => Ok(read_default(workspaces, wants_model)),
    }
}

/// Naming the file confirms it.
fn read_named(path: &Path, workspaces: &[PathBuf]) -> Result<EnvFile, CliError> {
    let shown = path.display();
    let complain = |why: &dyn std::fmt::Display| {
        CliError::usage(format!("cannot read the env file `{shown}`: {why}"))
    };
    let file = EnvFile::read(path).map_err(|why| complain(&why))?;
    let file = file.ok_or_else(|| complain(&"there is no such file"))?;
    if lies_inside(&file.location, workspaces) {
        let text = format!("the env file `{shown}` lies inside the workspace");
        return Err(
            CliError::usage(text).hint("a sandbox could rewrite it: move it elsewhere".to_owned())
        );
    }
    warn_refused(&file);
    Ok(file)
}

/// `.env` in the current folder. An invalid one only causes a warning, because a sandbox may have created
/// it.
fn read_default(workspaces: &[PathBuf], wants_model: bool) -> Option<EnvFile> {
    let path = Path::new(DEFAULT_ENV_FILE);
    fs::symlink_metadata(path).ok()?;
    let here = fs::canonicalize(".").unwrap_or_default();
    // Before it is read: it may not be a regular file at all.
    if lies_inside(&here.join(path), workspaces) {
        warn("`.env` is not read: it lies inside the workspace, where a sandbox can write");
        return None;
    }
    let file = match EnvFile::read(path) {
        Ok(file) => file?,
        Err(why) => {
            warn(format!("`.env` is not used: {why}"));
            return None;
        }
    };
    warn_refused(&file);
    if !wants_model || file.values.is_empty() {
        return None;
    }
    let why = match EnvTrustRecord::outside(workspaces) {
        Err(complaint) => complaint.into_line(),
        Ok(record) => match record.verdict(&file) {
            EnvVerdict::Allowed => return Some(file),
            EnvVerdict::Changed => "it has changed since you allowed it".to_owned(),
            EnvVerdict::Refused => "you have refused it".to_owned(),
            EnvVerdict::Unknown => "you have not allowed it".to_owned(),
        },
    };
    warn(format!(
        "`.env` is not used, although it sets {}: {why}\n\
         hint: `hotcell env allow`, or `--env-file .env`",
        file.names()
    ));
    None
}

fn lies_inside(location: &Path, workspaces: &[PathBuf]) -> bool {
    let mut real = workspaces
        .iter()
        .filter_map(|path| fs::canonicalize(path).ok());
    real.any(|workspace| location.starts_with(workspace))
}

/// One warning for all variables that it may not set.
pub(crate) fn warn_refused(file: &EnvFile) {
    if !file.refused.is_empty() {
        warn(format!(
            "`{}` cannot set {}: ignored\nhint: {REFUSED_VARIABLE_HINT}",
            file.path.display(),
            file.refused.join(", ")
        ));
    }
}

/// Asks about a `.env` that is new or has changed, if there is a user at a terminal. The answer is stored.
/// Must be called before the UI takes the terminal.
pub(crate) fn confirm(overrides: &SettingOverrides) -> Result<(), CliError> {
    if overrides.env_file.is_some() || !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(());
    }
    // Errors in the settings are reported when they are read.
    let Ok(settings) = sources::read_file(overrides.config.as_deref()) else {
        return Ok(());
    };
    let workspaces = overrides.workspaces(&settings);
    let path = Path::new(DEFAULT_ENV_FILE);
    let Ok(Some(file)) = EnvFile::read(path) else {
        return Ok(());
    };
    let Ok(record) = EnvTrustRecord::outside(&workspaces) else {
        return Ok(());
    };
    if file.values.is_empty() || lies_inside(&file.location, &workspaces) {
        return Ok(());
    }
    let was_changed = match record.verdict(&file) {
        EnvVerdict::Allowed | EnvVerdict::Refused => return Ok(()),
        EnvVerdict::Changed => true,
        EnvVerdict::Unknown => false,
    };
    let answer = ask_yes_no(&question(&file, was_changed));
    record.keep(&file, answer)
}

fn question(file: &EnvFile, was_changed: bool) -> String {
    let folder = file.location.parent().unwrap_or(Path::new("/"));
    let link = match fs::read_link(&file.location) {
        Ok(target) => format!(", a link to `{}`,", target.display()),
        Err(_) => String::new(),
    };
    let changed = if was_changed { "has changed: it " } else { "" };
    format!(
        "`.env` in `{}`{link} {changed}sets {}. Use it? [y/N] ",
        folder.display(),
        file.names()
    )
}

/// Whether the answer is yes. Input typed before the question was shown is discarded.
fn ask_yes_no(question: &str) -> bool {
    let _ = tcflush(io::stdin(), FlushArg::TCIFLUSH);
    let mut errors = io::stderr();
    let shown = write!(errors, "{}", clean(question)).and_then(|()| errors.flush());
    let mut line = String::new();
    if shown.is_err() || io::stdin().lock().read_line(&mut line).is_err() {
        return false;
    }
    matches!(line.trim(), "y" | "Y" | "yes" | "Yes" | "YES")
}
