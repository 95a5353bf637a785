//! The right to write to a session, as an operating system lock on a file. It ends with the process, however
//! that dies. A file that no process has locked means nothing.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use protocol::SessionId;

use crate::error::StoreError;

#[derive(Debug)]
pub(crate) struct SessionLock {
    path: PathBuf,
    // Closing it releases the lock.
    _file: File,
}

impl SessionLock {
    pub(crate) fn take(locks: &Path, session: &SessionId) -> Result<Self, StoreError> {
        let path = locks.join(session.as_str());
        let failed = |source| StoreError::Lock {
            session: session.clone(),
            source,
        };
        loop {
            let file = open(&path).map_err(failed)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(StoreError::InUse(session.clone())),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
            }
            // The previous owner may have removed the file after it was opened here. Then this lock is on a
            // deleted file, and another process could lock a new file of the same name.
            if is_same_file(&file, &path).map_err(failed)? {
                return Ok(Self { path, _file: file });
            }
        }
    }
}

impl Drop for SessionLock {
    fn drop(&mut self) {
        // Removed while it is still locked. A file that cannot be removed is harmless.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Opens a lock file. Creates it if it is missing.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

fn is_same_file(file: &File, path: &Path) -> io::Result<bool> {
    let locked = file.metadata()?;
    match std::fs::symlink_metadata(path) {
        Ok(found) => Ok((found.dev(), found.ino()) == (locked.dev(), locked.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
