//! Opens a store's folder.
//!
//! `sessions.db` has the events, `checkpoints.db` the far larger contents of workspaces, and `locks` a file
//! for each session that is being written. A server's `jobs.db` is in the same folder; see [`crate::JobStore`].
//! Never touches anything outside.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::database::{Database, opening, run_to_completion};
use crate::error::StoreError;
use crate::lock::SessionLock;
use crate::migration::{CHECKPOINTS_SCHEMA, SESSIONS_SCHEMA};

/// An open store. Cheap to clone; clones share its connections.
#[derive(Debug, Clone)]
pub struct SessionStore {
    inner: Arc<SessionStoreInner>,
}

#[derive(Debug)]
struct SessionStoreInner {
    folder: PathBuf,
    sessions: Database,
    /// Opened on first use, for a faster start.
    checkpoints: OnceCell<Database>,
}

impl SessionStore {
    /// Opens the store in a folder. Creates both if they are missing.
    ///
    /// Sessions are private, so only the owner can access the folder and its files.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = create_folders(folder)?;
        let sessions = Database::open(&folder, SESSIONS_SCHEMA).await?;
        Ok(Self {
            inner: Arc::new(SessionStoreInner {
                folder,
                sessions,
                checkpoints: OnceCell::new(),
            }),
        })
    }

    /// Opens the databases that are otherwise opened on first use, if they exist. A server must detect at its
    /// start that a newer release wrote them.
    pub async fn open_all(&self) -> Result<(), StoreError> {
        if self.has_checkpoints() {
            self.checkpoints_db().await?;
        }
        Ok(())
    }

    /// Truncates the WALs of the databases, for a clean shutdown.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let store = self.clone();
        run_to_completion("empty the log", async move {
            store.inner.sessions.settle().await?;
            match store.inner.checkpoints.get() {
                Some(checkpoints) => checkpoints.settle().await,
                None => Ok(()),
            }
        })
        .await
    }

    pub(crate) fn sessions_db(&self) -> &Database {
        &self.inner.sessions
    }

    pub(crate) async fn checkpoints_db(&self) -> Result<&Database, StoreError> {
        let open = || Database::open(&self.inner.folder, CHECKPOINTS_SCHEMA);
        self.inner.checkpoints.get_or_try_init(open).await
    }

    /// Whether the store has a database of checkpoints.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.inner.folder.join(CHECKPOINTS_SCHEMA.file).exists()
    }

    pub(crate) fn lock(&self, session: &protocol::SessionId) -> Result<SessionLock, StoreError> {
        SessionLock::take(&locks(&self.inner.folder), session)
    }
}

/// The folder of lock files.
pub(crate) fn locks(folder: &Path) -> PathBuf {
    folder.join("locks")
}

/// Creates a store's folder, and returns its absolute path.
pub(crate) fn create_folders(folder: &Path) -> Result<PathBuf, StoreError> {
    let make = || -> io::Result<PathBuf> {
        // SQLite would take a relative path that begins with `file:` for a URI.
        let folder = std::path::absolute(folder)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(locks(&folder))?;
        Ok(folder)
    };
    make().map_err(opening(folder))
}
