//! What can be done with jobs, by whom. The whole list; HTTP only translates.
//!
//! Every function takes the caller. A job of somebody else does not exist for them. What is done
//! with a job is in `scheduling` and `talking`, following it in `following`, keys in `access`.

mod access;
mod admission;
mod following;
mod scheduling;
mod talking;
#[cfg(test)]
pub(crate) mod tests;
mod webhooks;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use audit::AuditLog;
use protocol::EventKind;
use protocol::job::{Job, JobId, UserRole};
use store::Store;
use store::jobs::JobQuery;
use uuid::Uuid;

use crate::config::Config;
use crate::folder::JobFolder;
use crate::http::connections::Connections;
use crate::parts::{ChangeError, Parts};
use admission::Admission;

/// Who asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) user: String,
    pub(crate) role: UserRole,
    /// The key, if there is one.
    pub(crate) key: Option<Uuid>,
}

impl Caller {
    /// Whoever is at this machine, where no keys are needed.
    pub(crate) fn local() -> Self {
        Self {
            user: "local".to_owned(),
            role: UserRole::Admin,
            key: None,
        }
    }

    /// Whether a job of that owner exists for them.
    pub(crate) fn sees(&self, owner: &str) -> bool {
        self.role == UserRole::Admin || self.user == owner
    }
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    #[error("there is no job `{0}`")]
    NoJob(JobId),
    /// What is wrong with the request, in one line.
    #[error("{0}")]
    Invalid(String),
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
    /// What the caller is not allowed to do, in one line.
    #[error("{0}")]
    Forbidden(String),
    #[error("there is no key `{0}`")]
    NoKey(Uuid),
    /// A task of the server's own broke.
    #[error("the request was lost: this is a bug in hotcell")]
    Lost,
}

/// What a follower of a job hears. Text is JSON, made once for all followers.
#[derive(Debug, Clone)]
pub(crate) enum Told {
    /// The job's record changed, or following begins.
    Job(Arc<Job>),
    /// An event of the agent; with its place if it lasts.
    Event {
        seq: Option<u64>,
        /// The number of the turn that this event ends, if it ends one.
        ends_turn: Option<u32>,
        json: Arc<str>,
    },
    /// The job has ended and everything was told.
    End,
}

/// The application behind HTTP. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct App {
    parts: Arc<Parts>,
    admission: Arc<Admission>,
}

/// A job in whose session words were found.
#[derive(Debug, Clone)]
pub(crate) struct FoundJob {
    pub(crate) job: Job,
    /// The words with their surroundings, as the store gives them.
    pub(crate) excerpt: String,
}

/// What there is to do, at this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Work {
    pub(crate) queued: u64,
    /// Those that wait for a message too.
    pub(crate) running: u64,
}

/// What is new about a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) id: JobId,
    /// False if it was scheduled before under the same key.
    pub(crate) is_new: bool,
}

impl App {
    pub(crate) fn new(parts: Arc<Parts>) -> Self {
        let admission = Arc::new(Admission::new(&parts));
        Self { parts, admission }
    }

    pub(crate) async fn job(&self, caller: &Caller, id: JobId) -> Result<Job, AppError> {
        match self.parts.jobs.job(id).await? {
            Some(job) if caller.sees(&job.owner) => Ok(self.parts.roster.complete(job)),
            _ => Err(AppError::NoJob(id)),
        }
    }

    /// What a job has, or last had, around it; nothing before its first start.
    pub(crate) async fn walls(&self, job: &Job) -> Result<Option<EventKind>, AppError> {
        let Some(session) = &job.session else {
            return Ok(None);
        };
        let store = &self.parts.store;
        let started = store.last_event(session, "sandbox_started").await?;
        Ok(started.map(|event| event.kind))
    }

    /// Only their own, for those who are not admins.
    pub(crate) async fn list(
        &self,
        caller: &Caller,
        mut query: JobQuery,
    ) -> Result<Vec<Job>, AppError> {
        if caller.role != UserRole::Admin {
            query.owner = Some(caller.user.clone());
        }
        let jobs = self.parts.jobs.list(&query).await?.into_iter();
        Ok(jobs.map(|job| self.parts.roster.complete(job)).collect())
    }

    /// Where a job's files are; they may not be there yet.
    pub(crate) async fn folder(
        &self,
        caller: &Caller,
        id: JobId,
    ) -> Result<(Job, JobFolder), AppError> {
        let job = self.job(caller, id).await?;
        Ok((job, JobFolder::new(&self.parts.config.data, id)))
    }

    /// Jobs of theirs in whose sessions the words occur; newest first.
    pub(crate) async fn search(
        &self,
        caller: &Caller,
        words: &str,
        limit: usize,
    ) -> Result<Vec<FoundJob>, AppError> {
        let mut jobs = Vec::new();
        let mut looked_at = 0;
        // The store knows no owners: what belongs to others is passed over, and more is asked for.
        let mut ask = limit.max(1);
        loop {
            let found = self.parts.store.search(words, ask as u64).await?;
            for found in found.iter().skip(looked_at) {
                let session = &found.summary.session;
                let job = self.parts.jobs.of_session(session).await?;
                if let Some(job) = job.filter(|job| caller.sees(&job.owner)) {
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

    /// Whether the store can be written to and new jobs are taken. Says what makes jobs wait that
    /// is not their number, one line each.
    pub(crate) async fn check(&self) -> Result<Vec<String>, AppError> {
        if self.parts.ending.is_cancelled() {
            return Err(AppError::Ending);
        }
        self.parts.jobs.check().await?;
        let outages = self.parts.breakers.outages();
        let lines = outages.iter().map(|outage| {
            // Anybody can ask: the provider's kind, and not its address.
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

    /// Bytes that are free on the disk, and those below which no job is started.
    pub(crate) fn disk(&self) -> (u64, u64) {
        (self.parts.disk.free(), self.parts.disk.floor())
    }

    /// Every provider that was asked, and whether it answers.
    pub(crate) fn providers(&self) -> Vec<(String, bool)> {
        self.parts.breakers.providers()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.parts.connections
    }

    /// How many jobs are parked.
    pub(crate) async fn parked(&self) -> Result<u64, AppError> {
        Ok(self.parts.jobs.parked().await?)
    }

    pub(crate) fn config(&self) -> &Config {
        &self.parts.config
    }

    /// The address that the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.parts.address
    }

    /// Whether every request needs a key; forced on where others can reach the server.
    pub(crate) fn needs_key(&self) -> bool {
        self.parts.config.require_keys
    }

    pub(crate) fn store(&self) -> &Store {
        &self.parts.store
    }

    /// The server's own log of what was changed by whom.
    pub(crate) fn audit(&self) -> &Arc<AuditLog> {
        &self.parts.audit
    }

    pub(crate) fn work(&self) -> Work {
        Work {
            queued: self.parts.loads.queued(),
            running: self.parts.loads.running(),
        }
    }

    /// Machines that a job could take at once.
    pub(crate) fn machines_waiting(&self) -> usize {
        let machines = self.parts.config.policy.sandbox.pool.as_ref();
        machines.map_or(0, |machines| machines.waiting())
    }

    /// A place for an upload, not yet there; [`App::schedule`] takes it over.
    pub(crate) fn new_upload(&self) -> PathBuf {
        let name = format!("{}.zip", Uuid::now_v7());
        self.parts.config.data.join("uploads").join(name)
    }

    /// The server's own choice of a model, by name.
    pub(crate) fn default_model(&self) -> Option<String> {
        self.admission.default_model()
    }
}

impl AppError {
    /// Of a change of a job.
    fn of(error: ChangeError, id: JobId) -> Self {
        match error {
            ChangeError::Refused(refused) => Self::Conflict(refused.to_string()),
            ChangeError::Gone => Self::NoJob(id),
            ChangeError::Store(error) => Self::Store(error),
        }
    }
}
