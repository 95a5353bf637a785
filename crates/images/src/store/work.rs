//! Folders in which images are made. Each is locked by its maker for as long as that lives, so that
//! what the dead have left can be told from what is under way.
//!
//! Entry types: [`Work`], [`sweep`].

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::programs::Programs;

/// A note of where the rest of a maker's files are.
const ELSEWHERE: &str = "elsewhere";
/// How the names of such folders begin.
const ELSEWHERE_NAME: &str = "hotcell-image-";

/// A folder for one image that is being made. When it is dropped, all that is left in it goes.
#[derive(Debug)]
pub(crate) struct Work {
    folder: PathBuf,
    /// Its lock is let go only after the folder is gone.
    _lock: File,
}

impl Work {
    /// Called under the lock of the store, as [`sweep`] is.
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

    /// What will be renamed when it is whole.
    pub(crate) fn image(&self) -> PathBuf {
        self.folder.join("image")
    }

    /// The new root.
    pub(crate) fn root(&self) -> io::Result<PathBuf> {
        let root = self.image().join("root");
        fs::create_dir_all(&root)?;
        Ok(root)
    }

    /// A folder for whatever the making needs. A user's other identities, with which an ordinary user
    /// builds, may not get through to the store: then it stands elsewhere, and a note says where.
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
            let elsewhere = builder.prefix(ELSEWHERE_NAME).tempdir_in("/tmp")?.keep();
            fs::write(
                self.folder.join(ELSEWHERE),
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

    /// Ends it and says what could not be removed.
    pub(super) fn end(self, programs: &Programs) -> io::Result<()> {
        clear(&self.folder, programs)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // What cannot be removed now is swept later.
        let _ = clear(&self.folder, &Programs::default());
    }
}

/// Removes what belongs to nobody who lives.
pub(super) fn sweep(store: &Path, programs: &Programs) -> io::Result<()> {
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
            clear(&folder, programs)?;
        }
    }
    Ok(())
}

/// Removes a folder of a maker, and what it has elsewhere.
fn clear(folder: &Path, programs: &Programs) -> io::Result<()> {
    if let Ok(elsewhere) = fs::read(folder.join(ELSEWHERE)) {
        let elsewhere = Path::new(OsStr::from_bytes(&elsewhere)).to_owned();
        let is_ours = elsewhere.parent() == Some(Path::new("/tmp"))
            && elsewhere
                .file_name()
                .is_some_and(|name| name.as_bytes().starts_with(ELSEWHERE_NAME.as_bytes()));
        if is_ours {
            remove(&elsewhere, programs)?;
        }
    }
    remove(folder, programs)
}

/// Removes a folder, also if there are files of the user's other identities in it: those that a
/// build in a user namespace leaves when it is killed.
fn remove(folder: &Path, programs: &Programs) -> io::Result<()> {
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
