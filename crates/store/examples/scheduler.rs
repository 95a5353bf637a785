//! A separate process for tests, which is killed or runs out of disk space.
//!
//! `scheduler schedule|fill FOLDER`: prints acknowledged jobs to standard output.

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use futures_util::future::join_all;
use jiff::Timestamp;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use protocol::job::{Job, JobId, JobRequest, JobState};
use store::jobs::{ChangeExtras, ChangeResult};
use store::{JobStore, StoreError};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let result = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["schedule", folder] => schedule(folder).await,
        ["fill", folder] => fill(folder).await,
        _ => Err("scheduler schedule|fill FOLDER".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = print_line(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Schedules, and ends every other job, until it is killed.
async fn schedule(folder: &str) -> Result<(), Failure> {
    let jobs = JobStore::open(Path::new(folder)).await?;
    let workers = (0..8).map(|worker| schedule_on(&jobs, worker));
    join_all(workers).await.into_iter().collect()
}

async fn schedule_on(jobs: &JobStore, worker: u64) -> Result<(), Failure> {
    for number in 0_u64.. {
        let mut job = job(worker << 32 | number, 1000);
        jobs.schedule(job.clone(), None).await?;
        print_line(&format!("{} done", job.id))?;
        if number % 2 == 1 {
            continue;
        }
        job.state = JobState::Complete;
        job.messages += 1;
        let along = ChangeExtras {
            message: Some("more".into()),
            delivery: Some("it has ended".into()),
        };
        let changed = jobs.change(job, along).await?;
        assert!(matches!(changed, ChangeResult::Saved(_)));
    }
    Ok(())
}

/// Schedules until files cannot grow. Then allows them to grow again and schedules once more.
async fn fill(folder: &str) -> Result<(), Failure> {
    let jobs = JobStore::open(Path::new(folder)).await?;
    let (_, hard) = getrlimit(Resource::RLIMIT_FSIZE)?;
    setrlimit(Resource::RLIMIT_FSIZE, 1 << 20, hard)?;
    let mut is_full = false;
    for round in 0_u64.. {
        let new = (0..5).map(|number| job(round << 32 | number, 5000));
        let schedules = new.map(async |job| (job.id, jobs.schedule(job, None).await));
        for (id, scheduled) in join_all(schedules).await {
            is_full |= report(id, scheduled.map(drop))?;
        }
        if is_full {
            break;
        }
    }
    // A few pages may still have fit.
    let failure = loop {
        if let Err(error) = jobs.check().await {
            break error;
        }
    };
    report(JobId(Uuid::nil()), Err(failure))?;
    setrlimit(Resource::RLIMIT_FSIZE, hard, hard)?;
    jobs.check().await?;
    let last = job(u64::MAX, 1);
    let id = last.id;
    let scheduled = jobs.schedule(last, None).await;
    report(id, scheduled.map(drop))?;
    Ok(())
}

/// Prints the result. Returns whether it failed.
fn report(id: JobId, result: Result<(), StoreError>) -> std::io::Result<bool> {
    match &result {
        Ok(()) => print_line(&format!("{id} done"))?,
        Err(error) => print_line(&format!("full: {error}"))?,
    }
    Ok(result.is_err())
}

/// A job with an id that is unique across processes.
fn job(number: u64, length: usize) -> Job {
    let created = Timestamp::now();
    let id = (created.as_nanosecond() as u128) << 64 | u128::from(number);
    Job::new(
        JobId(Uuid::from_u128(id)),
        "somebody".to_owned(),
        JobRequest {
            task: format!("Build me a todo app {}", "x".repeat(length)),
            ..JobRequest::default()
        },
        created,
    )
}

fn print_line(line: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}
