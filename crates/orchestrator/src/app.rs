//! All operations on jobs, with their access checks. HTTP only translates.
//!
//! Every operation takes the caller. A job of another user is reported as missing. The submodules
//! have the operations: scheduling, messages and cancelling, following, keys and webhooks.

mod access;
mod admission;
mod control;
mod following;
mod scheduling;
#[cfg(test)]
pub(crate) mod tests;
mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use audit::AuditLog;
use protocol::EventKind;
use protocol::job::{Job, JobId, UserRole};
use store::SessionStore;
use store::jobs::JobQuery;
use uuid::Uuid;

use crate::config::ServerConfig;
use crate::folder::JobFolder;
use crate::parts::{ChangeError, ServerParts};
use admission::JobAdmission;
pub(crate) use following::JobFollower;

/// The user on whose behalf a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) role: UserRole,
    /// The API key that was used, if any.
    pub(crate) key: Option<Uuid>,
}

impl Caller {
    /// The caller without a key on a server that requires none.
    pub(crate) fn local() -> Self {
        Self {
            user: "local".to_owned(),
            role: UserRole::Admin,
            key: None,
        }
    }

    /// Whether this caller may see what belongs to `owner`.
    pub(crate) fn can_see(&self, owner: &str) -> bool {
        self.role == UserRole::Admin || self.user == owner
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("there is no job `{0}`")]
    NoJob(JobId),
    /// One line that says what is wrong with the request.
    #[error("{0}")]
    Invalid(String),
    /// The request names an upload, but only the server does, after it has received a zip.
    #[error("input: `upload` is set by the server")]
    UploadNamed,
    #[error("{0}")]
    Conflict(String),
    #[error("the idempotency key belongs to another request")]
    KeyTaken,
    #[error("{what} are waiting already")]
    Full { what: String, retry_after: u64 },
    #[error("the server is ending")]
    Ending,
    #[error(transparent)]
    Store(#[from] store::StoreError),
    #[error("cannot read the job's files")]
    Files(#[source] std::io::Error),
    /// One line that says what the caller is not allowed to do.
    #[error("{0}")]
    Forbidden(String),
    #[error("there is no key `{0}`")]
    NoKey(Uuid),
    /// An internal task panicked.
    #[error("the request was lost: this is a bug in hotcell")]
    Lost,
}

/// The application behind HTTP. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    parts: Arc<ServerParts>,
    admission: Arc<JobAdmission>,
}

/// A search hit: a job and the matching part of its session.
#[derive(Debug, Clone)]
pub(crate) struct FoundJob {
    pub(crate) job: Job,
    /// The matching words with their context, as the store returns them.
    pub(crate) excerpt: String,
}

/// How many jobs are queued and running now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobCounts {
    pub(crate) queued: u64,
    /// Includes jobs that wait for a message.
    pub(crate) running: u64,
}

/// The result of scheduling a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AcceptedJob {
    pub(crate) id: JobId,
    /// False if the job was already scheduled under the same idempotency key.
    pub(crate) is_new: bool,
}

impl App {
    pub(crate) fn new(parts: Arc<ServerParts>) -> Self {
        let admission = Arc::new(JobAdmission::new(&parts));
        Self { parts, admission }
    }

    pub(crate) async fn job(&self, caller: &Caller, id: JobId) -> Result<Job, AppError> {
        match self.parts.jobs.job(id).await? {
            Some(job) if caller.can_see(&job.owner) => {
                Ok(self.parts.running_jobs.with_live_data(job))
            }
            _ => Err(AppError::NoJob(id)),
        }
    }

    /// The `sandbox_started` event of a job's current or last sandbox; `None` before its first
    /// start.
    pub(crate) async fn last_sandbox(&self, job: &Job) -> Result<Option<EventKind>, AppError> {
        let Some(session) = &job.session else {
            return Ok(None);
        };
        let store = &self.parts.store;
        let started = store.last_event(session, "sandbox_started").await?;
        Ok(started.map(|event| event.kind))
    }

    /// Callers who are not admins see only their own jobs.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        mut query: JobQuery,
    ) -> Result<Vec<Job>, AppError> {
        if caller.role != UserRole::Admin {
            query.owner = Some(caller.user.clone());
        }
        let jobs = self.parts.jobs.list(&query).await?.into_iter();
        Ok(jobs
            .map(|job| self.parts.running_jobs.with_live_data(job))
            .collect())
    }

    /// The job and its folder, which may not exist yet.
    pub(crate) async fn folder(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<(Job, JobFolder), AppError> {
        let job = self.job(caller, id).await?;
        Ok((job, JobFolder::new(&self.parts.config.data, id)))
    }

    /// Jobs visible to the caller whose sessions contain the words; newest first.
    pub(crate) async fn search(
        &self,
        caller: &Caller,
        words: &str,
        limit: usize,
    ) -> Result<Vec<FoundJob>, AppError> {
        let mut jobs = Vec::new();
        let mut looked_at = 0;
        // The store does not filter by owner: results of other users are skipped, and more are
        // requested.
        let mut ask = limit.max(1);
        loop {
            let found = self.parts.store.search(words, ask as u64).await?;
            for found in found.iter().skip(looked_at) {
                let session = &found.summary.session;
                let job = self.parts.jobs.job_of_session(session).await?;
                if let Some(job) = job.filter(|job| caller.can_see(&job.owner)) {
                    let excerpt = found.excerpt.clone();
                    jobs.push(FoundJob { job, excerpt });
                }
                if jobs.len() >= limit {
                    return Ok(jobs);
                }
            }
            if found.len() < ask {
                return Ok(jobs);
            }
            looked_at = found.len();
            ask = ask.saturating_mul(4);
        }
    }

    /// Checks that the store is writable and new jobs are accepted. Returns one line for each
    /// outage that makes jobs wait.
    pub(crate) async fn check(&self) -> Result<Vec<String>, AppError> {
        if self.parts.ending.is_cancelled() {
            return Err(AppError::Ending);
        }
        self.parts.jobs.check().await?;
        let outages = self.parts.breakers.outages();
        let lines = outages.iter().map(|outage| {
            // This is public: include the provider's kind but not its address.
            let kind = outage.provider.split(' ').next().unwrap_or_default();
            let wait = outage.wait.as_secs();
            format!("the model provider `{kind}` is failing; it is asked again in {wait} s")
        });
        let mut lines: Vec<String> = lines.collect();
        let disk = &self.parts.disk;
        if !disk.has_room() {
            let (free, floor) = (disk.free() >> 20, disk.floor() >> 20);
            lines.push(format!(
                "the disk has {free} MiB free, and no job is started below {floor} MiB"
            ));
        }
        Ok(lines)
    }

    /// Free bytes on the disk, and the minimum for starting a job.
    pub(crate) fn disk(&self) -> (u64, u64) {
        (self.parts.disk.free(), self.parts.disk.floor())
    }

    /// Every provider that was used, and whether its breaker is closed.
    pub(crate) fn providers(&self) -> Vec<(String, bool)> {
        self.parts.breakers.providers()
    }

    pub(crate) async fn parked(&self) -> Result<u64, AppError> {
        Ok(self.parts.jobs.parked().await?)
    }

    pub(crate) fn config(&self) -> &ServerConfig {
        &self.parts.config
    }

    /// The address that the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.parts.address
    }

    /// Whether every request needs a key. Forced on when the server is reachable from other
    /// machines.
    pub(crate) fn needs_key(&self) -> bool {
        self.parts.config.require_keys
    }

    pub(crate) fn store(&self) -> &SessionStore {
        &self.parts.store
    }

    /// The server's own audit log.
    pub(crate) fn audit(&self) -> &Arc<AuditLog> {
        &self.parts.audit
    }

    pub(crate) fn work(&self) -> JobCounts {
        JobCounts {
            queued: self.parts.loads.queued(),
            running: self.parts.loads.running(),
        }
    }

    /// Pre-started virtual machines that are ready for a job.
    pub(crate) fn machines_waiting(&self) -> usize {
        let machines = self.parts.config.policy.sandbox.pool.as_ref();
        machines.map_or(0, |machines| machines.waiting())
    }

    /// A new path for an upload; nothing exists there yet. [`App::schedule`] takes the file over.
    pub(crate) fn new_upload(&self) -> PathBuf {
        let name = format!("{}.zip", Uuid::now_v7());
        self.parts.config.data.join("uploads").join(name)
    }

    /// The name of the server's default model.
    pub(crate) fn default_model(&self) -> Option<String> {
        self.admission.default_model()
    }
}

impl AppError {
    /// Converts the error of a job change.
    fn of(error: ChangeError, id: JobId) -> Self {
        match error {
            ChangeError::Refused(refused) => Self::Conflict(refused.to_string()),
            ChangeError::Gone => Self::NoJob(id),
            ChangeError::Store(error) => Self::Store(error),
        }
    }
}
