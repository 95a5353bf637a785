//! Records which contents of `.env` files the user has allowed or refused.
//!
//! The record is `env-files.json` in the user's state folder, with mode 0600. It stores the path and the
//! SHA-256 of each file: another content, or the same one elsewhere, is asked about again. A record inside
//! the workspace is not used. Entry type: [`EnvTrustRecord`].

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::env_file::EnvFile;
use super::files::{lock_beside, make_private_folder, read_small_text, replace};
use super::sandbox::{destination, state_folder};
use crate::cli_error::CliError;

const MAX_RECORD_BYTES: u64 = 1 << 20;
/// The oldest are removed first.
const MAX_TRUST_ENTRIES: usize = 1000;

/// The user's answer about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EnvVerdict {
    Allowed,
    Refused,
    /// Another content was allowed.
    Changed,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TrustEntry {
    path: String,
    sha256: String,
    allowed: bool,
}

/// The record of one user.
#[derive(Debug)]
pub(crate) struct EnvTrustRecord {
    path: PathBuf,
}

impl EnvTrustRecord {
    /// Fails if it lies inside one of these workspaces: a sandbox could write its own answers.
    pub(crate) fn outside(workspaces: &[PathBuf]) -> Result<Self, CliError> {
        let path = state_folder()?.join("env-files.json");
        let is_inside =
            |workspace: &PathBuf| destination(&path).starts_with(destination(workspace));
        if workspaces.iter().any(is_inside) {
            Err(CliError::usage(format!(
                "the record of allowed files `{}` lies inside the workspace",
                path.display()
            )))
        } else {
            Ok(Self { path })
        }
    }

    /// The answer about this content of this file. A record that cannot be read has no answers.
    pub(crate) fn verdict(&self, file: &EnvFile) -> EnvVerdict {
        let entries = self.entries().unwrap_or_default();
        let place = path_text(&file.location);
        let mut known = entries.iter().filter(|entry| entry.path == place);
        match known.next_back() {
            None => EnvVerdict::Unknown,
            Some(entry) if entry.sha256 == file.sha256 && entry.allowed => EnvVerdict::Allowed,
            Some(entry) if entry.sha256 == file.sha256 => EnvVerdict::Refused,
            Some(entry) if entry.allowed => EnvVerdict::Changed,
            Some(_) => EnvVerdict::Unknown,
        }
    }

    /// Stores an answer, replacing an earlier one for the same path.
    pub(crate) fn keep(&self, file: &EnvFile, allowed: bool) -> Result<(), CliError> {
        let entry = TrustEntry {
            path: path_text(&file.location),
            sha256: file.sha256.clone(),
            allowed,
        };
        self.change(&file.location, Some(entry))
    }

    /// Removes the answer for a path.
    pub(crate) fn forget(&self, location: &Path) -> Result<(), CliError> {
        self.change(location, None)
    }

    fn change(&self, location: &Path, entry: Option<TrustEntry>) -> Result<(), CliError> {
        let place = path_text(location);
        let change = || -> io::Result<()> {
            make_private_folder(self.path.parent().unwrap_or(Path::new(".")))?;
            let _lock = lock_beside(&self.path)?;
            let mut entries = self.entries()?;
            entries.retain(|one| one.path != place);
            entries.extend(entry);
            let surplus = entries.len().saturating_sub(MAX_TRUST_ENTRIES);
            entries.drain(..surplus);
            replace(&self.path, &serde_json::to_string_pretty(&entries)?)
        };
        change().map_err(|error| {
            let text = format!("cannot write `{}`: {error}", self.path.display());
            CliError::new(1, text).hint("use `--env-file FILE` instead".to_owned())
        })
    }

    fn entries(&self) -> io::Result<Vec<TrustEntry>> {
        match read_small_text(&self.path, MAX_RECORD_BYTES) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// A path as text. Bytes that are not UTF-8 are escaped, so that no two paths become the same.
fn path_text(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!("{path:?}"),
    }
}
