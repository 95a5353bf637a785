//! Schedules, retries and deletes jobs.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::job::{Job, JobId, JobInput, JobRequest};
use store::jobs::{IdempotencyKey, ScheduleResult};
use tokio::task::spawn_blocking;
use uuid::Uuid;

use super::{AcceptedJob, App, AppError, Caller};
use crate::folder::JobFolder;
use crate::input;
use crate::loads::Reservation;
use crate::retention::{RetentionError, delete_job, remove_job_files};

/// Where a job's uploaded zip comes from.
enum UploadSource {
    /// A new upload, moved into the job's folder.
    Move(PathBuf),
    /// The upload of another job, which keeps it.
    Copy(PathBuf),
}

impl App {
    /// Checks a request against the policy and stores it as a job. `upload` is a zip in the uploads
    /// folder, which is moved into the job's folder.
    pub(crate) async fn schedule(
        &self,
        caller: &Caller,
        request: JobRequest,
        upload: Option<PathBuf>,
        key: Option<IdempotencyKey>,
    ) -> Result<AcceptedJob, AppError> {
        let upload = upload.map(UploadSource::Move);
        self.accept(caller.user.clone(), request, upload, key).await
    }

    /// Schedules the same request as a new job with its own session and workspace. The old job
    /// stays.
    pub(crate) async fn retry(&self, caller: &Caller, id: JobId) -> Result<Job, AppError> {
        let mut job = self.job(caller, id).await?;
        if !job.state.has_ended() {
            return Err(AppError::Conflict("the job has not ended".to_owned()));
        }
        let is_upload = |input: &mut JobInput| matches!(input, JobInput::Upload { .. });
        let upload = job.request.input.take_if(is_upload);
        let upload = upload.map(|_| UploadSource::Copy(self.folder_of(id).upload()));
        let accepted = self.accept(job.owner, job.request, upload, None).await?;
        self.job(caller, accepted.id).await
    }

    /// Deletes an ended job with its folder and session.
    pub(crate) async fn delete(&self, caller: &Caller, id: JobId) -> Result<(), AppError> {
        loop {
            let job = self.job(caller, id).await?;
            if !job.state.has_ended() {
                return Err(AppError::Conflict("the job has not ended".to_owned()));
            }
            let parts = &self.parts;
            let deleted = delete_job(&parts.jobs, &parts.store, &parts.config.data, &job).await;
            if let Err(RetentionError::Store(error)) = &deleted
                && error.may_be_full()
                && parts.disk.release()
            {
                continue;
            }
            // If false, the record has changed since: try again.
            if deleted.map_err(from_retention)? {
                return Ok(());
            }
        }
    }

    /// Checks and stores a new job. Storing completes even if the caller disconnects, because a
    /// stored job must be counted.
    async fn accept(
        &self,
        owner: String,
        mut request: JobRequest,
        upload: Option<UploadSource>,
        key: Option<IdempotencyKey>,
    ) -> Result<AcceptedJob, AppError> {
        if self.parts.ending.is_cancelled() {
            return Err(AppError::Ending);
        }
        // The disk reserve is only for operations that free space.
        if self.parts.disk.is_on_reserve() {
            return Err(AppError::Files(io::ErrorKind::StorageFull.into()));
        }
        set_upload(&mut request, upload.as_ref())?;
        self.admission.check(&request)?;
        self.check_zip(&request, upload.as_ref()).await?;
        let reservation = self.reserve(&owner)?;
        let app = self.clone();
        let accepted = tokio::spawn(async move {
            let id = JobId(Uuid::now_v7());
            let job = Job::new(id, owner, request, Timestamp::now());
            app.store_job(job, upload, key, reservation).await
        });
        accepted.await.unwrap_or_else(|_| Err(AppError::Lost))
    }

    /// Refuses a request whose zip cannot be unpacked.
    async fn check_zip(
        &self,
        request: &JobRequest,
        upload: Option<&UploadSource>,
    ) -> Result<(), AppError> {
        // The zip of another job was checked when it was uploaded.
        let Some(UploadSource::Move(path)) = upload else {
            return Ok(());
        };
        let policy = &self.parts.config.policy;
        let limits = policy.sandbox.limits.lowered(&request.limits);
        let checked = input::check_zip(path.clone(), limits.disk).await;
        checked.map_err(|error| AppError::Invalid(format!("input: {error}")))
    }

    pub(super) fn reserve(&self, owner: &str) -> Result<Reservation, AppError> {
        self.parts
            .loads
            .reserve(owner)
            .map_err(|full| AppError::Full {
                what: full.what,
                retry_after: full.retry_after,
            })
    }

    async fn store_job(
        &self,
        job: Job,
        upload: Option<UploadSource>,
        key: Option<IdempotencyKey>,
        reservation: Reservation,
    ) -> Result<AcceptedJob, AppError> {
        let id = job.id;
        let folder = self.folder_of(id);
        let has_upload = upload.is_some();
        if let Some(upload) = upload {
            let folder = folder.clone();
            let put = spawn_blocking(move || put_upload(&folder, &upload)).await;
            put.unwrap_or_else(|_| Err(io::Error::other("the upload was lost")))
                .map_err(AppError::Files)?;
        }
        let scheduled = self.parts.jobs.schedule(job, key).await;
        let is_stored = matches!(scheduled, Ok(ScheduleResult::New) | Err(_));
        if is_stored {
            // After a store error the job may or may not exist. Count it: the dispatcher corrects
            // the count.
            reservation.commit();
        } else if has_upload {
            // If this fails, retention removes the orphaned folder later.
            let _ = spawn_blocking(move || remove_job_files(folder.path())).await;
        }
        match scheduled? {
            ScheduleResult::New => Ok(AcceptedJob { id, is_new: true }),
            ScheduleResult::Before(id) => Ok(AcceptedJob { id, is_new: false }),
            ScheduleResult::KeyTaken(_) => Err(AppError::KeyTaken),
        }
    }

    pub(super) fn folder_of(&self, id: JobId) -> JobFolder {
        JobFolder::new(&self.parts.config.data, id)
    }
}

/// Makes the upload, if there is one, the job's input.
fn set_upload(request: &mut JobRequest, upload: Option<&UploadSource>) -> Result<(), AppError> {
    let path = match (&request.input, upload) {
        (Some(JobInput::Upload { .. }), _) => return Err(AppError::UploadNamed),
        (Some(JobInput::Git { .. }), Some(_)) => {
            let reason = "input: a job starts from a repository or from a zip, not from both";
            return Err(AppError::Invalid(reason.to_owned()));
        }
        (_, None) => return Ok(()),
        (None, Some(UploadSource::Move(path) | UploadSource::Copy(path))) => path,
    };
    let bytes = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata.len(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(AppError::Conflict("the job's zip is gone".to_owned()));
        }
        Err(error) => return Err(AppError::Files(error)),
    };
    request.input = Some(JobInput::Upload { bytes });
    Ok(())
}

fn put_upload(folder: &JobFolder, upload: &UploadSource) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(folder.path())?;
    match upload {
        UploadSource::Move(path) => fs::rename(path, folder.upload()),
        UploadSource::Copy(path) => link_or_copy(path, &folder.upload()),
    }
}

/// Uploads are never modified, so both jobs can share one file.
fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Ok(()) => Ok(()),
        Err(_) => fs::copy(from, to).map(drop),
    }
}

fn from_retention(error: RetentionError) -> AppError {
    match error {
        RetentionError::Store(error) => AppError::Store(error),
        RetentionError::Files(error) => AppError::Files(error),
    }
}
