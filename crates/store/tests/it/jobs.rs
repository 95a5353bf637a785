//! Tests of a server's jobs: scheduling, changing, listing, deleting.

mod change;
mod commit;
mod deliveries;
mod failures;
mod keys;
mod list;
mod opening;
mod parked;
mod processes;
mod queue;
mod record;
mod schedule;

use std::path::PathBuf;

use jiff::Timestamp;
use protocol::job::{Cause, Failure, Job, JobId, JobRequest, JobState};
use sqlx::SqliteConnection;
use store::JobStore;
use store::jobs::{ChangeExtras, ChangeResult, ScheduleResult};
use uuid::Uuid;

use crate::connect;

/// A folder for jobs, with the jobs open.
struct JobsFixture {
    folder: PathBuf,
    jobs: JobStore,
    _parent: tempfile::TempDir,
}

impl JobsFixture {
    async fn new() -> JobsFixture {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("store");
        JobsFixture {
            jobs: JobStore::open(&folder).await.unwrap(),
            folder,
            _parent: parent,
        }
    }

    /// Opens the jobs again, as another process would.
    async fn again(&self) -> JobStore {
        JobStore::open(&self.folder).await.unwrap()
    }

    /// Schedules a job of `somebody`.
    async fn schedule(&self, number: u128) -> Job {
        self.schedule_for("somebody", number).await
    }

    async fn schedule_for(&self, owner: &str, number: u128) -> Job {
        let mut job = new(number);
        job.owner = owner.to_owned();
        let scheduled = self.jobs.schedule(job.clone(), None).await.unwrap();
        assert_eq!(scheduled, ScheduleResult::New);
        job
    }

    async fn job(&self, number: u128) -> Job {
        self.jobs.job(id(number)).await.unwrap().unwrap()
    }

    /// Sets a job's state.
    async fn set_state(&self, number: u128, state: JobState) -> Job {
        let mut job = self.job(number).await;
        job.ended = state.has_ended().then(|| time(900));
        job.state = state;
        saved(
            self.jobs
                .change(job, ChangeExtras::default())
                .await
                .unwrap(),
        )
    }

    async fn sql(&self) -> SqliteConnection {
        connect(&self.folder.join("jobs.db")).await
    }

    /// Runs SQL directly on the database, bypassing the store.
    async fn run(&self, sql: &'static str) {
        let mut connection = self.sql().await;
        sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    }

    async fn number(&self, sql: &'static str) -> i64 {
        let mut connection = self.sql().await;
        let number = sqlx::query_scalar(sql).fetch_one(&mut connection).await;
        number.unwrap()
    }
}

#[track_caller]
fn saved(changed: ChangeResult) -> Job {
    match changed {
        ChangeResult::Saved(job) => *job,
        ChangeResult::Stale => panic!("somebody else changed it"),
    }
}

fn id(number: u128) -> JobId {
    JobId(Uuid::from_u128(number))
}

fn numbers(jobs: &[Job]) -> Vec<u128> {
    jobs.iter().map(|job| job.id.0.as_u128()).collect()
}

/// This many seconds after a fixed time.
fn time(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_790_000_000 + seconds).unwrap()
}

fn failed(cause: Cause) -> JobState {
    JobState::Failed {
        failure: Failure {
            cause,
            message: "it could not be done".into(),
        },
    }
}

/// A new job.
fn new(number: u128) -> Job {
    Job::new(
        id(number),
        "somebody".to_owned(),
        JobRequest {
            task: format!("Build me todo app {number}"),
            ..JobRequest::default()
        },
        time(number as i64 % 1000),
    )
}
