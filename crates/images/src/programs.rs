//! The programs of the host that make images: where each is. Never reads `PATH`: what a variable
//! names could be anything.
//!
//! Entry type: [`Programs`].

use std::path::{Path, PathBuf};

/// The folders in which programs are looked for, in this order.
#[derive(Debug, Clone)]
pub struct Programs {
    folders: Vec<PathBuf>,
}

impl Default for Programs {
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

impl Programs {
    /// Only what is in these folders.
    pub fn in_folders<P: Into<PathBuf>>(folders: impl IntoIterator<Item = P>) -> Self {
        Self {
            folders: folders.into_iter().map(Into::into).collect(),
        }
    }

    /// The first file of this name that may be executed.
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        let mut candidates = self.folders.iter().map(|folder| folder.join(name));
        candidates.find(|path| is_program(path))
    }

    /// As a child's `PATH`.
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
