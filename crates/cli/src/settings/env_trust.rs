//! Records which contents of `.env` files the user has allowed or refused.
//!
//! The record is `env-files.json` in the user's state folder, with mode 0600. It stores the path and the
//! SHA-256 of each file: another content, or the same one elsewhere, is asked about again. A record inside
//! the workspace is not used. Entry type: [`Record`].

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::env_file::EnvFile;
use super::files::{lock, make_private_folder, read_small_text, replace};
use super::sandbox::{destination, state_folder};
use crate::complaint::Complaint;

const MAX_BYTES: u64 = 1 << 20;
/// The oldest are removed first.
const MAX_ENTRIES: usize = 1000;

/// The user's answer about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    Refused,
    /// Another content was allowed.
    Changed,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    path: String,
    sha256: String,
    allowed: bool,
}

/// The record of one user.
#[derive(Debug)]
pub(crate) struct Record {
    path: PathBuf,
}

impl Record {
    /// Fails if it lies inside one of these workspaces: a sandbox could write its own answers.
    pub(crate) fn outside(workspaces: &[PathBuf]) -> Result<Self, Complaint> {
        let path = state_folder()?.join("env-files.json");
        let is_inside =
            |workspace: &PathBuf| destination(&path).starts_with(destination(workspace));
        if workspaces.iter().any(is_inside) {
            Err(Complaint::usage(format!(
                "the record of allowed files `{}` lies inside the workspace",
                path.display()
            )))
        } else {
            Ok(Self { path })
        }
    }

    /// The answer about this content of this file. A record that cannot be read has no answers.
    pub(crate) fn verdict(&self, file: &EnvFile) -> Verdict {
        let entries = self.entries().unwrap_or_default();
        let place = name_of(&file.location);
        let mut known = entries.iter().filter(|entry| entry.path == place);
        match known.next_back() {
            None => Verdict::Unknown,
            Some(entry) if entry.sha256 == file.sha256 && entry.allowed => Verdict::Allowed,
            Some(entry) if entry.sha256 == file.sha256 => Verdict::Refused,
            Some(entry) if entry.allowed => Verdict::Changed,
            Some(_) => Verdict::Unknown,
        }
    }

    /// Stores an answer, replacing an earlier one for the same path.
    pub(crate) fn keep(&self, file: &EnvFile, allowed: bool) -> Result<(), Complaint> {
        let entry = Entry {
            path: name_of(&file.location),
            sha256: file.sha256.clone(),
            allowed,
        };
        self.change(&file.location, Some(entry))
    }

    /// Removes the answer for a path.
    pub(crate) fn forget(&self, location: &Path) -> Result<(), Complaint> {
        self.change(location, None)
    }

    fn change(&self, location: &Path, entry: Option<Entry>) -> Result<(), Complaint> {
        let place = name_of(location);
        let change = || -> io::Result<()> {
            make_private_folder(self.path.parent().unwrap_or(Path::new(".")))?;
            let _lock = lock(&self.path)?;
            let mut entries = self.entries()?;
            entries.retain(|one| one.path != place);
            entries.extend(entry);
            let surplus = entries.len().saturating_sub(MAX_ENTRIES);
            entries.drain(..surplus);
            replace(&self.path, &serde_json::to_string_pretty(&entries)?)
        };
        change().map_err(|error| {
            let text = format!("cannot write `{}`: {error}", self.path.display());
            Complaint::new(1, text).hint("use `--env-file FILE` instead".to_owned())
        })
    }

    fn entries(&self) -> io::Result<Vec<Entry>> {
        match read_small_text(&self.path, MAX_BYTES) {
            Ok(text) => Ok(serde_json::from_str(&text)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }
}

/// A path as text. Bytes that are not UTF-8 are escaped, so that no two paths become the same.
fn name_of(path: &Path) -> String {
    match path.to_str() {
        Some(text) => text.to_owned(),
        None => format!("{path:?}"),
    }
}
