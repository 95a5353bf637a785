//! Folders in which images are made. A process locks its folder as long as it lives, so that folders of dead
//! processes can be recognised and removed.
//!
//! Entry type: [`WorkFolder`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::HostPrograms;

/// A file that holds the path of a scratch folder outside the store.
const SCRATCH_PATH_FILE: &str = "elsewhere";
/// The prefix of such folders' names.
const SCRATCH_PREFIX: &str = "hotcell-image-";

/// A folder for one image that is being made. Removed on drop.
#[derive(Debug)]
pub(crate) struct WorkFolder {
    folder: PathBuf,
    /// Released only after the folder is removed.
    _lock: File,
}

impl WorkFolder {
    /// Must be called under the lock of the store, as the removal of stale folders must.
    pub(super) fn begin(store: &Path) -> io::Result<Self> {
        let parent = store.join("work");
        fs::create_dir_all(&parent)?;
        let folder = tempfile::Builder::new()
            .prefix("image-")
            .tempdir_in(parent)?;
        let lock = File::create(folder.path().join("lock"))?;
        lock.lock()?;
        Ok(Self {
            folder: folder.keep(),
            _lock: lock,
        })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder that is renamed into `roots` when the image is complete.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    /// The new root.
    pub(crate) fn root(&self) -> io::Result<PathBuf> {
        let root = self.image().join("root");
        fs::create_dir_all(&root)?;
        Ok(root)
    }

    /// Creates a scratch folder for the builder program. Builds of an ordinary user run with subordinate ids,
    /// which may have no access to the store. Then the folder is in `/tmp`, and a file in this folder has its
    /// path.
    pub(crate) fn scratch(&self, is_for_others: bool) -> io::Result<PathBuf> {
        let is_open = |folder: &Path| {
            folder
                .metadata()
                .is_ok_and(|about| about.permissions().mode() & 0o001 != 0)
        };
        let open = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&self.folder, open.clone())?;
        let scratch = if is_for_others && !self.folder.ancestors().all(is_open) {
            let mut builder = tempfile::Builder::new();
            let elsewhere = builder.prefix(SCRATCH_PREFIX).tempdir_in("/tmp")?.keep();
            fs::write(
                self.folder.join(SCRATCH_PATH_FILE),
                elsewhere.as_os_str().as_bytes(),
            )?;
            elsewhere
        } else {
            let scratch = self.folder.join("scratch");
            fs::create_dir(&scratch)?;
            scratch
        };
        fs::set_permissions(&scratch, open)?;
        Ok(scratch)
    }

    /// Removes the folder. Unlike dropping, reports errors.
    pub(super) fn end(self, programs: &HostPrograms) -> io::Result<()> {
        remove_work_folder(&self.folder, programs)
    }
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // On failure, the next process that removes stale folders tries again.
        let _ = remove_work_folder(&self.folder, &HostPrograms::default());
    }
}

/// Removes the folders of dead processes.
pub(super) fn remove_stale(store: &Path, programs: &HostPrograms) -> io::Result<()> {
    let entries = match fs::read_dir(store.join("work")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let folder = entry?.path();
        let is_dead = match File::open(folder.join("lock")) {
            Ok(lock) => lock.try_lock().is_ok(),
            Err(_) => true,
        };
        if is_dead {
            remove_work_folder(&folder, programs)?;
        }
    }
    Ok(())
}

/// Removes a work folder, and its scratch folder in `/tmp` if it has one.
fn remove_work_folder(folder: &Path, programs: &HostPrograms) -> io::Result<()> {
    if let Ok(elsewhere) = fs::read(folder.join(SCRATCH_PATH_FILE)) {
        let elsewhere = Path::new(OsStr::from_bytes(&elsewhere)).to_owned();
        let is_ours = elsewhere.parent() == Some(Path::new("/tmp"))
            && elsewhere
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(SCRATCH_PREFIX.as_bytes()));
        if is_ours {
            remove_folder(&elsewhere, programs)?;
        }
    }
    remove_folder(folder, programs)
}

/// Removes a folder, even if some of its files belong to the user's subordinate ids. A build in a user
/// namespace leaves such files when it is killed.
fn remove_folder(folder: &Path, programs: &HostPrograms) -> io::Result<()> {
    let outcome = match fs::remove_dir_all(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    };
    let Err(error) = outcome else {
        return Ok(());
    };
    let (Some(unshare), io::ErrorKind::PermissionDenied) = (programs.find("unshare"), error.kind())
    else {
        return Err(error);
    };
    let status = Command::new(unshare)
        .args(["--user", "--map-auto", "--map-root-user", "rm", "-rf", "--"])
        .arg(folder)
        .env_clear()
        .env("PATH", programs.path_variable())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if status.success() { Ok(()) } else { Err(error) }
}
