//! Forgets ended jobs that are too old or too large, and folders that belong to no job.
//!
//! A job's record goes first, then its session, then its folder: whatever a crash leaves belongs to
//! no job and is swept in the next round. Before the record goes, its folder is marked with the
//! session, so that nothing is left of that either. Sizes are what files take up on disk. A folder
//! is measured once after each end of its job and the number kept in it; those of jobs that have
//! not ended are measured in each round. Never touches a job that has not ended.

mod sizes;
mod sweep;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use protocol::job::Job;
use store::{Jobs, Store, StoreError};
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::config::Retention;
use crate::folder::JobFolder;
use crate::parts::chain;
use crate::tree::remove_tree;

/// Between two rounds.
const PERIOD: Duration = Duration::from_secs(600);

/// Jobs that are looked at together.
const BATCH: u32 = 100;

/// What belongs to no job is left alone for so long: a job may be about to be made of it.
pub(crate) const GRACE: Duration = Duration::from_secs(3600);

/// What a round works on.
#[derive(Debug, Clone)]
pub(crate) struct Keeper {
    pub(crate) jobs: Jobs,
    pub(crate) store: Store,
    pub(crate) data: PathBuf,
    pub(crate) retention: Retention,
}

/// Why a round was not finished. The next one begins anew.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetentionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot look after the folders of jobs")]
    Files(#[from] io::Error),
}

/// A round now and every ten minutes, until the end.
pub(crate) async fn run(keeper: Keeper, end: CancellationToken) {
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            round = keeper.round(Timestamp::now()) => match round {
                Ok(0) => {}
                Ok(forgotten) => info!(forgotten, "ended jobs forgotten"),
                Err(error) => warn!(error = %chain(&error), "cannot look after ended jobs"),
            },
        }
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(PERIOD) => {}
        }
    }
}

impl Keeper {
    /// Forgets what is to be forgotten now, and says how many jobs that were.
    pub(crate) async fn round(&self, now: Timestamp) -> Result<u64, RetentionError> {
        sweep::uploads(&self.data, now).await?;
        let mut forgotten = self.forget_old(now).await?;
        let mut total = self.measure_all(now).await?;
        while total > self.retention.size {
            let batch = self.jobs.longest_ended(BATCH).await?;
            let before = forgotten;
            for job in batch {
                if total <= self.retention.size {
                    break;
                }
                let bytes = self.measure(&job).await?;
                if forget(&self.jobs, &self.store, &self.data, &job).await? {
                    total = total.saturating_sub(bytes);
                    forgotten += 1;
                }
            }
            // Nothing more can go: what is left has not ended.
            if forgotten == before {
                break;
            }
        }
        self.jobs.remove_old_logins(now).await?;
        if forgotten > 0 {
            self.jobs.shrink().await?;
        }
        Ok(forgotten)
    }

    async fn forget_old(&self, now: Timestamp) -> Result<u64, RetentionError> {
        let mut forgotten = 0;
        loop {
            let before = forgotten;
            for job in self.jobs.longest_ended(BATCH).await? {
                let ended = job.ended.unwrap_or(now);
                let age = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
                if age <= self.retention.age {
                    return Ok(forgotten);
                }
                if forget(&self.jobs, &self.store, &self.data, &job).await? {
                    forgotten += 1;
                }
            }
            if forgotten == before {
                return Ok(forgotten);
            }
        }
    }

    /// Bytes of all jobs' folders. What belongs to no job is removed instead.
    async fn measure_all(&self, now: Timestamp) -> Result<u64, RetentionError> {
        let mut total: u64 = 0;
        for id in sweep::folders(&self.data).await? {
            match self.jobs.job(id).await? {
                Some(job) => total = total.saturating_add(self.measure(&job).await?),
                None => {
                    let folder = JobFolder::new(&self.data, id);
                    sweep::orphan(&self.store, &folder, now).await?;
                }
            }
        }
        Ok(total)
    }

    async fn measure(&self, job: &Job) -> Result<u64, RetentionError> {
        let folder = JobFolder::new(&self.data, job.id);
        let revision = job.state.has_ended().then_some(job.revision);
        Ok(blocking(move || sizes::measure(folder.path(), revision)).await?)
    }
}

/// Forgets an ended job with its session and its folder; false if it changed since it was read.
pub(crate) async fn forget(
    jobs: &Jobs,
    store: &Store,
    data: &Path,
    job: &Job,
) -> Result<bool, RetentionError> {
    let folder = JobFolder::new(data, job.id);
    let (marked, session) = (folder.clone(), job.session.clone());
    blocking(move || sweep::mark(&marked, session.as_ref())).await?;
    if !jobs.forget(job.id, job.revision).await? {
        return Ok(false);
    }
    if let Some(session) = &job.session {
        sweep::delete_session(store, session).await?;
    }
    blocking(move || remove_job_files(folder.path())).await?;
    Ok(true)
}

/// Removes a job's folder; nothing, if there is none. What is in it was written by untrusted
/// programs. Blocks.
pub(crate) fn remove_job_files(folder: &Path) -> io::Result<()> {
    remove_tree(folder)
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    spawn_blocking(work).await.map_err(io::Error::other)?
}
