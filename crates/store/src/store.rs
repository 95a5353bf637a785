//! The store as its owner sees it: a folder that is opened.
//!
//! `sessions.db` has what people said and did, `checkpoints.db` the far larger contents of their
//! files, `locks` a file for each session that is being written. A server's `jobs.db` lies beside
//! them; see [`crate::Jobs`]. Never touches anything outside.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::database::{Database, carry_out, opening};
use crate::error::StoreError;
use crate::lock::SessionLock;
use crate::migration::{CHECKPOINTS, SESSIONS};

/// An open store. Cheap to clone; clones share its connections.
#[derive(Debug, Clone)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    sessions: Database,
    /// Opened at first use: a start need not wait for it.
    checkpoints: OnceCell<Database>,
}

impl Store {
    /// Opens the store in a folder, and makes both if they are not there.
    ///
    /// Sessions hold people's words: the folder is made for its owner only, and so are its files.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = make_folders(folder)?;
        let sessions = Database::open(&folder, SESSIONS).await?;
        Ok(Self {
            inner: Arc::new(Inner {
                folder,
                sessions,
                checkpoints: OnceCell::new(),
            }),
        })
    }

    /// Opens what is otherwise opened at first use, if it is there: a server wants to know at its
    /// start that a newer release wrote it.
    pub async fn open_rest(&self) -> Result<(), StoreError> {
        if self.has_checkpoints() {
            self.checkpoints_db().await?;
        }
        Ok(())
    }

    /// Empties the logs of the databases, for a clean end.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let store = self.clone();
        carry_out("empty the log", async move {
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
        let open = || Database::open(&self.inner.folder, CHECKPOINTS);
        self.inner.checkpoints.get_or_try_init(open).await
    }

    /// Whether anybody ever made a checkpoint in this store.
    pub(crate) fn has_checkpoints(&self) -> bool {
        self.inner.folder.join(CHECKPOINTS.file).exists()
    }

    pub(crate) fn lock(&self, session: &protocol::SessionId) -> Result<SessionLock, StoreError> {
        SessionLock::take(&locks(&self.inner.folder), session)
    }
}

/// Where the files are that are locked.
pub(crate) fn locks(folder: &Path) -> PathBuf {
    folder.join("locks")
}

/// Makes a store's folder, and says where it is.
pub(crate) fn make_folders(folder: &Path) -> Result<PathBuf, StoreError> {
    let make = || -> io::Result<PathBuf> {
        // SQLite takes a relative name that begins with `file:` for something else.
        let folder = std::path::absolute(folder)?;
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(locks(&folder))?;
        Ok(folder)
    };
    make().map_err(opening(folder))
}
