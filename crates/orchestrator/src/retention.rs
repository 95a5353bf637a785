//! Deletes ended jobs that are too old or too large, and orphaned folders.
//!
//! A job's record is deleted first, then its large files, its session, and its folder: whatever a
//! crash leaves belongs to no job and is removed in the next round. Before the record is deleted,
//! its folder is marked with the session's name, so that the session is not left behind either. A
//! job's size is the disk usage of its files plus its session's events, stored outputs and
//! checkpoints. It is measured once after each end of the job and cached in its folder; other jobs
//! are measured in each round. A round starts every ten minutes, and when a job ends and the total
//! size exceeds the limit. Ages are measured by [`age_clock`], which ignores clock jumps. Never
//! touches a job that has not ended.

mod age_clock;
mod orphans;
mod sizes;
#[cfg(test)]
mod tests;

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use protocol::job::{Job, JobId};
use store::{JobStore, SessionStore, StoreError};
use tokio::sync::mpsc;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use self::age_clock::AgeClock;
use crate::blocking::run_blocking;
use crate::config::Retention;
use crate::folder::JobFolder;
use crate::parts::chain;
use crate::tree::remove_tree;

/// Time between two rounds.
const ROUND_INTERVAL: Duration = Duration::from_secs(600);

/// Minimum time between two rounds.
const MIN_ROUND_INTERVAL: Duration = Duration::from_secs(1);

/// Jobs per query.
const JOB_PAGE_SIZE: u32 = 100;

/// How long orphaned files are kept: a job may be about to be created from them.
pub(crate) const ORPHAN_GRACE_PERIOD: Duration = Duration::from_secs(3600);

/// The retention task's settings and stores.
#[derive(Debug, Clone)]
pub(crate) struct RetentionTask {
    pub(crate) jobs: JobStore,
    pub(crate) store: SessionStore,
    pub(crate) data: PathBuf,
    pub(crate) retention: Retention,
}

/// Why a round failed. The next one starts over.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetentionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot clean up the folders of jobs")]
    Files(#[from] io::Error),
}

/// The result of a round.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RetentionResult {
    /// Number of deleted jobs.
    pub(crate) deleted: u64,
    /// Bytes of all remaining jobs.
    pub(crate) retained: u64,
}

/// Runs rounds until the server ends. Receives the jobs that have ended.
pub(crate) async fn run(
    task: RetentionTask,
    mut ended: mpsc::Receiver<JobId>,
    end: CancellationToken,
) {
    let rounds = async {
        let mut age_clock = AgeClock::open(&task).await;
        loop {
            let now = age_clock.now(Timestamp::now()).await;
            let retained = match task.round(now).await {
                Ok(RetentionResult { deleted, retained }) => {
                    if deleted > 0 {
                        info!(deleted, "deleted ended jobs");
                    }
                    retained
                }
                Err(error) => {
                    warn!(error = %chain(&error), "cannot delete ended jobs");
                    0
                }
            };
            sleep(MIN_ROUND_INTERVAL).await;
            tokio::select! {
                () = task.wait_until_exceeded(&mut ended, retained) => {}
                () = sleep(ROUND_INTERVAL) => {}
            }
        }
    };
    tokio::select! {
        () = end.cancelled() => {}
        () = rounds => {}
    }
}

impl RetentionTask {
    /// Runs one round.
    pub(crate) async fn round(&self, now: Timestamp) -> Result<RetentionResult, RetentionError> {
        orphans::uploads(&self.data, now).await?;
        let mut deleted = self.delete_expired(now).await?;
        let mut total = self.measure_all(now).await?;
        while total > self.retention.size {
            let batch = self.jobs.longest_ended(JOB_PAGE_SIZE).await?;
            let before = deleted;
            for job in batch {
                if total <= self.retention.size {
                    break;
                }
                let bytes = self.measure(&job).await?;
                if delete_job(&self.jobs, &self.store, &self.data, &job).await? {
                    total = total.saturating_sub(bytes);
                    deleted += 1;
                }
            }
            // No more jobs can be deleted: the others have not ended.
            if deleted == before {
                break;
            }
        }
        self.jobs.remove_old_logins(now).await?;
        if deleted > 0 {
            self.jobs.shrink().await?;
        }
        Ok(RetentionResult {
            deleted,
            retained: total,
        })
    }

    /// Returns when ending jobs make the total size exceed the limit, starting from the bytes that
    /// are retained.
    async fn wait_until_exceeded(&self, ended: &mut mpsc::Receiver<JobId>, retained: u64) {
        let mut total = retained;
        while let Some(id) = ended.recv().await {
            let job = self.jobs.job(id).await.ok().flatten();
            if let Some(job) = job {
                // On error the next round measures it.
                let bytes = self.measure(&job).await.unwrap_or(0);
                total = total.saturating_add(bytes);
            }
            if total > self.retention.size {
                return;
            }
        }
        pending().await
    }

    async fn delete_expired(&self, now: Timestamp) -> Result<u64, RetentionError> {
        let mut deleted = 0;
        loop {
            let before = deleted;
            for job in self.jobs.longest_ended(JOB_PAGE_SIZE).await? {
                let ended = job.ended.unwrap_or(now);
                let age = Duration::try_from(now.duration_since(ended)).unwrap_or_default();
                if age <= self.retention.age {
                    return Ok(deleted);
                }
                if delete_job(&self.jobs, &self.store, &self.data, &job).await? {
                    deleted += 1;
                }
            }
            if deleted == before {
                return Ok(deleted);
            }
        }
    }

    /// Bytes of all jobs. Removes orphaned folders.
    async fn measure_all(&self, now: Timestamp) -> Result<u64, RetentionError> {
        let mut total: u64 = 0;
        for id in orphans::job_folders(&self.data).await? {
            match self.jobs.job(id).await? {
                Some(job) => total = total.saturating_add(self.measure(&job).await?),
                None => {
                    let folder = JobFolder::new(&self.data, id);
                    orphans::remove_orphan(&self.store, &folder, now).await?;
                }
            }
        }
        Ok(total)
    }

    /// Bytes of a job: its folder, record and session.
    async fn measure(&self, job: &Job) -> Result<u64, RetentionError> {
        let folder = JobFolder::new(&self.data, job.id).path().to_path_buf();
        let checkpoints = match &job.session {
            Some(session) => self.store.checkpoint_count(session).await?,
            None => 0,
        };
        let version = job.state.has_ended().then_some(sizes::SizeVersion {
            revision: job.revision,
            checkpoints,
        });
        if let Some(version) = version {
            let measured = folder.clone();
            let stored = run_blocking(move || Ok(sizes::load_size(&measured, version))).await?;
            if let Some(bytes) = stored {
                return Ok(bytes);
            }
        }
        let measured = folder.clone();
        let mut bytes = run_blocking(move || sizes::measure(&measured)).await?;
        if let Some(session) = &job.session {
            bytes = bytes.saturating_add(self.store.size(session).await?.total());
        }
        let answer = job.answer.as_ref().map_or(0, String::len);
        let text = job.request.task.len().saturating_add(answer);
        bytes = bytes.saturating_add(text as u64);
        if let Some(version) = version {
            run_blocking(move || {
                sizes::store_size(&folder, version, bytes);
                Ok(())
            })
            .await?;
        }
        Ok(bytes)
    }
}

/// Deletes an ended job with its session and folder; false if it changed since it was read.
pub(crate) async fn delete_job(
    jobs: &JobStore,
    store: &SessionStore,
    data: &Path,
    job: &Job,
) -> Result<bool, RetentionError> {
    let folder = JobFolder::new(data, job.id);
    let (marked, session) = (folder.clone(), job.session.clone());
    run_blocking(move || orphans::mark(&marked, session.as_ref())).await?;
    if !jobs.forget(job.id, job.revision).await? {
        return Ok(false);
    }
    // Delete large files first: deleting the session needs free space, which a full disk lacks. The
    // marker is deleted last.
    let large = folder.clone();
    run_blocking(move || {
        remove_tree(&large.workspace())?;
        match std::fs::remove_file(large.output()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    })
    .await?;
    if let Some(session) = &job.session {
        orphans::delete_session(store, session).await?;
    }
    run_blocking(move || remove_job_files(folder.path())).await?;
    Ok(true)
}

/// Removes a job's folder, if it exists. Its contents are untrusted. Blocks.
pub(crate) fn remove_job_files(folder: &Path) -> io::Result<()> {
    remove_tree(folder)
}
