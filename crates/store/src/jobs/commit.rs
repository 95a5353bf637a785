//! Commits concurrent writes together, with one sync of the disk.
//!
//! Each write has its own outcome. Only a failure of the database is shared by all writes of a commit. Entry
//! points: [`JobStore::write`] and [`JobStore::insert`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use super::batch_queue::BatchWorker;
use super::schedule::{InsertResult, NewJob, insert};
use super::{JobStore, JobStoreInner};
use crate::database::Database;
use crate::error::StoreError;

/// The maximum number of writes of one commit. It limits how long the writes after them wait.
const MAX_BATCH_WRITES: usize = 256;

/// A write that is committed together with others. A refusal is an outcome. An error rolls back all writes of
/// the commit.
pub(super) trait BatchedWrite: Send + 'static {
    type Outcome: Send + 'static;

    /// The operation, for error messages.
    const WHAT: &'static str;

    fn apply(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> impl Future<Output = Result<Self::Outcome, sqlx::Error>> + Send;
}

type CommitResult<T> = Result<T, Arc<sqlx::Error>>;

/// A queued write with the channel to its caller.
pub(super) enum QueuedWrite {
    /// Many new jobs may arrive at once, so they are written by one statement.
    New(Box<PendingWrite<NewJob, InsertResult>>),
    Other(Box<dyn ErasedWrite>),
}

pub(super) struct PendingWrite<W, O> {
    write: W,
    outcome: Option<O>,
    caller: oneshot::Sender<CommitResult<O>>,
}

impl JobStore {
    /// Commits a write together with others. When this returns, it is on disk.
    pub(super) async fn write<W: BatchedWrite>(&self, write: W) -> Result<W::Outcome, StoreError> {
        let (pending, told) = pending(write);
        self.wait(W::WHAT, QueuedWrite::Other(pending), told).await
    }

    pub(super) async fn insert(&self, job: NewJob) -> Result<InsertResult, StoreError> {
        const WHAT: &str = "schedule a job";
        let (pending, told) = pending(job);
        self.wait(WHAT, QueuedWrite::New(pending), told).await
    }

    async fn wait<T>(
        &self,
        what: &'static str,
        waiting: QueuedWrite,
        told: oneshot::Receiver<CommitResult<T>>,
    ) -> Result<T, StoreError> {
        if let Some(shift) = self.inner.writes.join(waiting) {
            tokio::spawn(commit_batches(self.inner.clone(), shift));
        }
        let lost = || Err(Arc::new(sqlx::Error::WorkerCrashed));
        let told = told.await.unwrap_or_else(|_| lost());
        told.map_err(|source| StoreError::Database { what, source })
    }
}

fn pending<W, O>(write: W) -> (Box<PendingWrite<W, O>>, oneshot::Receiver<CommitResult<O>>) {
    let (caller, told) = oneshot::channel();
    let pending = PendingWrite {
        write,
        outcome: None,
        caller,
    };
    (Box::new(pending), told)
}

async fn commit_batches(inner: Arc<JobStoreInner>, mut shift: BatchWorker<QueuedWrite>) {
    while let Some(batch) = shift.next(MAX_BATCH_WRITES) {
        let (mut new, mut others) = (Vec::new(), Vec::new());
        for waiting in batch {
            match waiting {
                QueuedWrite::New(pending) => new.push(pending),
                QueuedWrite::Other(step) => others.push(step),
            }
        }
        let written = commit_batch(&inner.database, &mut new, &mut others).await;
        let written = written.map_err(Arc::new);
        for pending in new {
            pending.send_outcome(written.clone());
        }
        for step in others {
            step.tell(written.clone());
        }
    }
}

/// Writes of one batch are concurrent, so their order does not matter.
async fn commit_batch(
    database: &Database,
    new: &mut [Box<PendingWrite<NewJob, InsertResult>>],
    others: &mut [Box<dyn ErasedWrite>],
) -> Result<(), sqlx::Error> {
    let mut writer = database.take().await?;
    let written = async {
        let connection = writer.connection();
        let jobs: Vec<&NewJob> = new.iter().map(|pending| &pending.write).collect();
        let outcomes = insert(connection, &jobs).await?;
        for (pending, outcome) in new.iter_mut().zip(outcomes) {
            pending.outcome = Some(outcome);
        }
        for step in others {
            step.apply(connection).await?;
        }
        Ok(())
    };
    let written = written.await;
    writer.end(written).await
}

impl<W, O> PendingWrite<W, O> {
    fn send_outcome(self, written: CommitResult<()>) {
        let Self {
            outcome, caller, ..
        } = self;
        let outcome = written.map(|()| outcome.expect("a committed write has an outcome"));
        // The caller may have stopped waiting.
        let _ = caller.send(outcome);
    }
}

/// A type-erased [`BatchedWrite`] with the channel to its caller.
pub(super) trait ErasedWrite: Send {
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    fn tell(self: Box<Self>, written: CommitResult<()>);
}

impl<W: BatchedWrite> ErasedWrite for PendingWrite<W, W::Outcome> {
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            self.outcome = Some(self.write.apply(connection).await?);
            Ok(())
        })
    }

    fn tell(self: Box<Self>, written: CommitResult<()>) {
        self.send_outcome(written);
    }
}
