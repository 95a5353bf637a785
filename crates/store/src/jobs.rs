//! A server's database: jobs, their messages, API keys, logins and webhooks.
//!
//! It is a separate file, `jobs.db`, so that scheduling and the events of agents do not wait for each other.
//! Concurrent writes are committed together. A job's record is changed by compare and swap on its revision:
//! a caller that read an old revision must read and decide again. Makes no decisions about a job's state
//! itself. Entry type: [`JobStore`].

mod batch_queue;
mod change;
mod commit;
mod deliveries;
mod keys;
mod list;
mod parked;
mod read;
mod record;
mod schedule;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use protocol::job::{Job, JobId, Status};
use sqlx::SqliteConnection;

use self::batch_queue::BatchQueue;
use self::commit::{BatchedWrite, QueuedWrite};
use self::read::QueuedRead;
use crate::database::{Database, execute, run_to_completion};
use crate::error::StoreError;
use crate::migration::JOBS_SCHEMA;
use crate::store::create_folders;

const UPSERT_CHECK: &str = "
    INSERT INTO checks (only, count) VALUES (1, 1) ON CONFLICT DO UPDATE SET count = count + 1";

/// The jobs of a store. Cheap to clone; clones share its connections.
#[derive(Debug, Clone)]
pub struct JobStore {
    inner: Arc<JobStoreInner>,
}

#[derive(Debug)]
struct JobStoreInner {
    database: Database,
    writes: Arc<BatchQueue<QueuedWrite>>,
    reads: Arc<BatchQueue<QueuedRead>>,
}

/// Identifies a request that is sent twice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IdempotencyKey {
    /// Chosen by the caller; unique per owner.
    pub key: String,
    /// Hash of the request. The same key with another request is an error.
    pub fingerprint: [u8; 32],
}

/// The result of scheduling a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScheduleResult {
    New,
    /// The same request was scheduled before, with the same key.
    Before(JobId),
    /// The key belongs to another request.
    KeyTaken(JobId),
}

/// Rows that are added in the same transaction as a change of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangeExtras {
    /// A message from the user. [`Job::messages`] must include it.
    pub message: Option<String>,
    /// The body of a delivery to the job's webhook.
    pub delivery: Option<String>,
}

/// The result of changing a job.
#[derive(Debug, Clone, PartialEq)]
pub enum ChangeResult {
    /// The job as stored now, with its new revision.
    Saved(Box<Job>),
    /// The job was changed or removed since it was read.
    Stale,
}

/// Selects jobs for a list, newest first.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    pub owner: Option<String>,
    pub status: Option<Status>,
    /// Words of the task, in any order. Each also matches longer words that begin with it.
    pub words: Option<String>,
    /// Only jobs that are older than this one.
    pub before: Option<JobId>,
    /// 0 means no limit.
    pub limit: u32,
}

/// How many jobs of a user have not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerLoad {
    pub owner: String,
    pub queued: u64,
    /// Including those that wait for a message.
    pub running: u64,
}

/// A message to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobMessage {
    /// From 1 on; 1 is the task.
    pub number: u32,
    pub text: String,
    pub time: Timestamp,
}

/// Which queued jobs may be claimed.
#[derive(Debug, Clone)]
pub struct ClaimFilter {
    pub now: Timestamp,
    /// Models that must not be used now; `None` is the server's default model.
    pub blocked: Vec<Option<String>>,
    /// A job that has been parked for this long gets its last try, even if its model is blocked.
    pub longest_parked: Duration,
}

/// A worker's report on a job that it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Heartbeat {
    pub job: JobId,
    pub epoch: u32,
    pub ran_millis: u64,
}

/// A message to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub number: i64,
    pub job: JobId,
    pub body: String,
    pub tries: u32,
}

/// A delivery that is due, without its body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    pub number: i64,
    pub job: JobId,
    pub owner: String,
    /// The webhook's URL; empty if the job has no webhook.
    pub url: String,
    pub tries: u32,
}

/// The result of one attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryAttempt {
    Delivered,
    Again { at: Timestamp, error: String },
    Failed { error: String },
}

/// The state of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryState {
    pub outcome: DeliveryOutcome,
    pub tries: u32,
    pub last_try: Option<Timestamp>,
    /// Why the last try failed.
    pub last_error: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The next attempt is at this time, or soon after.
    Pending {
        due: Timestamp,
    },
    Delivered,
    Failed,
}

/// The result of a request to send a delivery again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// It is due now.
    Due,
    /// It was due already, and an attempt may be under way.
    UnderWay,
    NoJob,
}

/// A new job's record has revision 0 and one message, its task.
impl JobStore {
    /// Opens `jobs.db` in a store's folder. Creates both if they are missing.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = create_folders(folder)?;
        Ok(Self {
            inner: Arc::new(JobStoreInner {
                database: Database::open(&folder, JOBS_SCHEMA).await?,
                writes: BatchQueue::new(),
                reads: BatchQueue::new(),
            }),
        })
    }

    /// Frees the disk space of deleted jobs. After that, no file contains any of their data.
    pub async fn shrink(&self) -> Result<(), StoreError> {
        let jobs = self.clone();
        run_to_completion(
            "free space",
            async move { jobs.inner.database.shrink().await },
        )
        .await
    }

    /// Truncates the WAL of the database, for a clean shutdown.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let jobs = self.clone();
        let settle = async move { jobs.inner.database.settle().await };
        run_to_completion("empty the log", settle).await
    }

    /// Checks that the database can be written to, for the server's health check.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.write(HealthCheck).await
    }
}

struct HealthCheck;

impl BatchedWrite for HealthCheck {
    type Outcome = ();

    const WHAT: &'static str = "write";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        execute(connection, UPSERT_CHECK).await
    }
}

/// SQLite's query plan of a statement.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
async fn plan(sql: &str) -> String {
    use sqlx::{AssertSqlSafe, Row};

    let folder = tempfile::tempdir().unwrap();
    let jobs = JobStore::open(folder.path()).await.unwrap();
    let mut reader = jobs.inner.database.reader().await.unwrap();
    let plan = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
        .fetch_all(&mut *reader)
        .await
        .unwrap();
    let details: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
    details.join("\n")
}
