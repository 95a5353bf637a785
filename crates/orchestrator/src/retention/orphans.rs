//! Finds and removes orphans: folders without a job, unused uploads, and sessions of jobs that were
//! being deleted when the server died.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use protocol::SessionId;
use protocol::job::JobId;
use store::{SessionStore, StoreError};

use super::{ORPHAN_GRACE_PERIOD, RetentionError, remove_job_files};
use crate::blocking::run_blocking;
use crate::folder::JobFolder;

/// File in the folder of a job that is being deleted: the name of its session.
const DELETION_MARKER: &str = "forgotten";

/// Marks a job's folder before its record is deleted.
pub(super) fn mark(folder: &JobFolder, session: Option<&SessionId>) -> io::Result<()> {
    let text = session.map(ToString::to_string).unwrap_or_default();
    match fs::write(folder.path().join(DELETION_MARKER), text) {
        // A job that never ran has no folder.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        marked => marked,
    }
}

/// The ids of all jobs that have a folder.
pub(super) async fn job_folders(data: &Path) -> io::Result<Vec<JobId>> {
    let jobs = data.join("jobs");
    run_blocking(move || {
        let entries = match fs::read_dir(&jobs) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // Ignore entries that are not job folders.
            let id = name.to_str().and_then(|name| name.parse::<JobId>().ok());
            found.extend(id);
        }
        Ok(found)
    })
    .await
}

/// Removes the folder of a missing job: at once if it is marked, otherwise when it is old enough.
pub(super) async fn remove_orphan(
    store: &SessionStore,
    folder: &JobFolder,
    now: Timestamp,
) -> Result<(), RetentionError> {
    let path = folder.path().to_path_buf();
    let (session, is_old) = run_blocking(move || {
        let mark = fs::read_to_string(path.join(DELETION_MARKER)).ok();
        Ok((mark, is_old(&path, now)?))
    })
    .await?;
    match session {
        None if !is_old => return Ok(()),
        None => {}
        Some(name) => {
            if let Ok(session) = name.parse() {
                delete_session(store, &session).await?;
            }
        }
    }
    let path = folder.path().to_path_buf();
    Ok(run_blocking(move || remove_job_files(&path)).await?)
}

/// Removes old uploads that were not used for a job.
pub(super) async fn uploads(data: &Path, now: Timestamp) -> io::Result<()> {
    let uploads = data.join("uploads");
    run_blocking(move || {
        let entries = match fs::read_dir(&uploads) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            match is_old(&path, now) {
                Ok(true) => fs::remove_file(&path)?,
                Ok(false) => {}
                // The upload was just moved into a job's folder.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    })
    .await
}

pub(super) async fn delete_session(
    store: &SessionStore,
    session: &SessionId,
) -> Result<(), RetentionError> {
    match store.delete(session).await {
        Ok(()) | Err(StoreError::Unknown(_)) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn is_old(path: &Path, now: Timestamp) -> io::Result<bool> {
    let modified = fs::symlink_metadata(path)?.modified()?;
    let modified = Timestamp::try_from(modified).map_err(io::Error::other)?;
    let age = Duration::try_from(now.duration_since(modified)).unwrap_or_default();
    Ok(age > ORPHAN_GRACE_PERIOD)
}
