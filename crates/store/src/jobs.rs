//! What a server remembers: jobs, their messages, keys of the API, logins and webhooks.
//!
//! In a database of its own, `jobs.db`, so that scheduling and the events of agents do not wait
//! for each other. Writes that come at the same time are committed together. A job's record is
//! changed by compare and swap on its revision: who decided on an old one decides again. Decides
//! nothing itself about a job's life. Entry type: [`Jobs`].

mod change;
mod commit;
mod deliveries;
mod keys;
mod line;
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

use self::commit::{Waiting, Write};
use self::line::Line;
use self::read::Asking;
use crate::database::{Database, carry_out, execute};
use crate::error::StoreError;
use crate::migration::JOBS;
use crate::store::make_folders;

const CHECK: &str = "
    INSERT INTO checks (only, count) VALUES (1, 1) ON CONFLICT DO UPDATE SET count = count + 1";

/// The jobs of a store. Cheap to clone; clones share its connections.
#[derive(Debug, Clone)]
pub struct Jobs {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    database: Database,
    writes: Arc<Line<Waiting>>,
    reads: Arc<Line<Asking>>,
}

/// A key by which a request that is made twice is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    /// Chosen by the caller; counts among the owner's own.
    pub key: String,
    /// Of the request: the same key with another request is a mistake.
    pub fingerprint: [u8; 32],
}

/// What became of a new job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheduled {
    New,
    /// It was scheduled before, under the same key.
    Before(JobId),
    /// The key belongs to another request.
    KeyTaken(JobId),
}

/// What goes along with a change of a job, in the same transaction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Along {
    /// A message from a person; [`Job::messages`] must count it.
    pub message: Option<String>,
    /// Something to be told to the job's webhook.
    pub delivery: Option<String>,
}

/// What became of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// The job as it is kept now, with its new revision.
    Saved(Box<Job>),
    /// Somebody changed or removed it since it was read.
    Stale,
}

/// Which jobs, newest first.
#[derive(Debug, Clone, Default)]
pub struct JobQuery {
    pub owner: Option<String>,
    pub status: Option<Status>,
    /// Words of the task, in any order; found by how they begin.
    pub words: Option<String>,
    /// Jobs that are older than this one.
    pub before: Option<JobId>,
    /// 0 is all.
    pub limit: u32,
}

/// How much of a user's work there is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Load {
    pub owner: String,
    pub queued: u64,
    /// Those that wait for a message too.
    pub running: u64,
}

/// A message to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// From 1 on; 1 is the task.
    pub number: u32,
    pub text: String,
    pub time: Timestamp,
}

/// Which queued jobs may be claimed.
#[derive(Debug, Clone)]
pub struct Claimable {
    pub now: Timestamp,
    /// Models that are not to be asked now; `None` is the server's own choice.
    pub blocked: Vec<Option<String>>,
    /// A job that has been parked for so long gets its last try, blocked or not.
    pub longest_parked: Duration,
}

/// What a worker says of a job that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beat {
    pub job: JobId,
    pub epoch: u32,
    pub ran_millis: u64,
}

/// Something to be told to a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    pub number: i64,
    pub job: JobId,
    pub body: String,
    pub tries: u32,
}

/// A delivery that is due, without what is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DueDelivery {
    pub number: i64,
    pub job: JobId,
    pub owner: String,
    /// Where it goes to; empty if the job has no webhook.
    pub url: String,
    pub tries: u32,
}

/// What came of a try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tried {
    Delivered,
    Again { at: Timestamp, error: String },
    Failed { error: String },
}

/// What became of a delivery so far.
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
    /// It is tried at this time, or soon after.
    Pending {
        due: Timestamp,
    },
    Delivered,
    Failed,
}

/// What became of the wish to send a delivery again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Redelivery {
    /// It is due now.
    Due,
    /// It was due already, and may be on its way.
    UnderWay,
    NoJob,
}

/// A new job's record has revision 0 and one message, its task.
impl Jobs {
    /// Opens `jobs.db` in a store's folder, and makes both if they are not there.
    pub async fn open(folder: &Path) -> Result<Self, StoreError> {
        let folder = make_folders(folder)?;
        Ok(Self {
            inner: Arc::new(Inner {
                database: Database::open(&folder, JOBS).await?,
                writes: Line::new(),
                reads: Line::new(),
            }),
        })
    }

    /// Gives the disk space of forgotten jobs back. After it, no file has a trace of them.
    pub async fn shrink(&self) -> Result<(), StoreError> {
        let jobs = self.clone();
        carry_out(
            "free space",
            async move { jobs.inner.database.shrink().await },
        )
        .await
    }

    /// Empties the log of the database, for a clean end.
    pub async fn settle(&self) -> Result<(), StoreError> {
        let jobs = self.clone();
        let settle = async move { jobs.inner.database.settle().await };
        carry_out("empty the log", settle).await
    }

    /// Whether it can be written to; for a check of the server's health.
    pub async fn check(&self) -> Result<(), StoreError> {
        self.write(Check).await
    }
}

struct Check;

impl Write for Check {
    type Outcome = ();

    const WHAT: &'static str = "write";

    async fn apply(&mut self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        execute(connection, CHECK).await
    }
}

/// How SQLite goes about a statement.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
async fn plan(sql: &str) -> String {
    use sqlx::{AssertSqlSafe, Row};

    let folder = tempfile::tempdir().unwrap();
    let jobs = Jobs::open(folder.path()).await.unwrap();
    let mut reader = jobs.inner.database.reader().await.unwrap();
    let plan = sqlx::raw_sql(AssertSqlSafe(format!("EXPLAIN QUERY PLAN {sql}")))
        .fetch_all(&mut *reader)
        .await
        .unwrap();
    let details: Vec<String> = plan.iter().map(|row| row.get("detail")).collect();
    details.join("\n")
}
