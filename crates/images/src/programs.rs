//! Finds the host programs that make images. Never reads `PATH`, because the environment is not trusted.
//!
//! Entry type: [`HostPrograms`].

use std::path::{Path, PathBuf};

/// The folders in which programs are searched, in order.
#[derive(Debug, Clone)]
pub struct HostPrograms {
    folders: Vec<PathBuf>,
}

impl Default for HostPrograms {
    fn default() -> Self {
        let folders = [
            "/usr/local/sbin",
            "/usr/local/bin",
            "/usr/sbin",
            "/usr/bin",
            "/sbin",
            "/bin",
        ];
        Self::in_folders(folders)
    }
}

impl HostPrograms {
    /// Searches only these folders.
    pub fn in_folders<P: Into<PathBuf>>(folders: impl IntoIterator<Item = P>) -> Self {
        Self {
            folders: folders.into_iter().map(Into::into).collect(),
        }
    }

    /// The first executable file of this name.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let mut candidates = self.folders.iter().map(|folder| folder.join(name));
        candidates.find(|path| is_program(path))
    }

    /// The folders as the `PATH` of a child process.
    pub(crate) fn path_variable(&self) -> String {
        let folders: Vec<_> = self
            .folders
            .iter()
            .map(|folder| folder.to_string_lossy())
            .collect();
        folders.join(":")
    }
}

fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}
