//! Commits concurrent writes together, with one sync of the disk.
//!
//! Each write has its own outcome. Only a failure of the database is shared by all writes of a commit. Entry
//! points: [`Jobs::write`] and [`Jobs::insert`].

use std::sync::Arc;

use futures_util::future::BoxFuture;
use sqlx::SqliteConnection;
use tokio::sync::oneshot;

use super::line::Shift;
use super::schedule::{Inserted, NewJob, insert};
use super::{Inner, Jobs};
use crate::database::Database;
use crate::error::StoreError;

/// The maximum number of writes of one commit. It limits how long the writes after them wait.
const MOST: usize = 256;

/// A write that is committed together with others. A refusal is an outcome. An error rolls back all writes of
/// the commit.
pub(super) trait Write: Send + 'static {
    type Outcome: Send + 'static;

    /// The operation, for error messages.
    const WHAT: &'static str;

    fn apply(
        &mut self,
        connection: &mut SqliteConnection,
    ) -> impl Future<Output = Result<Self::Outcome, sqlx::Error>> + Send;
}

type Told<T> = Result<T, Arc<sqlx::Error>>;

/// A queued write with the channel to its caller.
pub(super) enum Waiting {
    /// Many new jobs may arrive at once, so they are written by one statement.
    New(Box<Pending<NewJob, Inserted>>),
    Other(Box<dyn Step>),
}

pub(super) struct Pending<W, O> {
    write: W,
    outcome: Option<O>,
    caller: oneshot::Sender<Told<O>>,
}

impl Jobs {
    /// Commits a write together with others. When this returns, it is on disk.
    pub(super) async fn write<W: Write>(&self, write: W) -> Result<W::Outcome, StoreError> {
        let (pending, told) = pending(write);
        self.wait(W::WHAT, Waiting::Other(pending), told).await
    }

    pub(super) async fn insert(&self, job: NewJob) -> Result<Inserted, StoreError> {
        const WHAT: &str = "schedule a job";
        let (pending, told) = pending(job);
        self.wait(WHAT, Waiting::New(pending), told).await
    }

    async fn wait<T>(
        &self,
        what: &'static str,
        waiting: Waiting,
        told: oneshot::Receiver<Told<T>>,
    ) -> Result<T, StoreError> {
        if let Some(shift) = self.inner.writes.join(waiting) {
            tokio::spawn(serve(self.inner.clone(), shift));
        }
        let lost = || Err(Arc::new(sqlx::Error::WorkerCrashed));
        let told = told.await.unwrap_or_else(|_| lost());
        told.map_err(|source| StoreError::Database { what, source })
    }
}

fn pending<W, O>(write: W) -> (Box<Pending<W, O>>, oneshot::Receiver<Told<O>>) {
    let (caller, told) = oneshot::channel();
    let pending = Pending {
        write,
        outcome: None,
        caller,
    };
    (Box::new(pending), told)
}

async fn serve(inner: Arc<Inner>, mut shift: Shift<Waiting>) {
    while let Some(batch) = shift.next(MOST) {
        let (mut new, mut others) = (Vec::new(), Vec::new());
        for waiting in batch {
            match waiting {
                Waiting::New(pending) => new.push(pending),
                Waiting::Other(step) => others.push(step),
            }
        }
        let written = write_all(&inner.database, &mut new, &mut others).await;
        let written = written.map_err(Arc::new);
        for pending in new {
            pending.tell_it(written.clone());
        }
        for step in others {
            step.tell(written.clone());
        }
    }
}

/// Writes of one batch are concurrent, so their order does not matter.
async fn write_all(
    database: &Database,
    new: &mut [Box<Pending<NewJob, Inserted>>],
    others: &mut [Box<dyn Step>],
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

impl<W, O> Pending<W, O> {
    fn tell_it(self, written: Told<()>) {
        let Self {
            outcome, caller, ..
        } = self;
        let outcome = written.map(|()| outcome.expect("a committed write has an outcome"));
        // The caller may have stopped waiting.
        let _ = caller.send(outcome);
    }
}

/// A type-erased [`Write`] with the channel to its caller.
pub(super) trait Step: Send {
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>>;

    fn tell(self: Box<Self>, written: Told<()>);
}

impl<W: Write> Step for Pending<W, W::Outcome> {
    fn apply<'a>(
        &'a mut self,
        connection: &'a mut SqliteConnection,
    ) -> BoxFuture<'a, Result<(), sqlx::Error>> {
        Box::pin(async move {
            self.outcome = Some(self.write.apply(connection).await?);
            Ok(())
        })
    }

    fn tell(self: Box<Self>, written: Told<()>) {
        self.tell_it(written);
    }
}
