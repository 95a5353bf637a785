//! Measures the operations that requests to a server wait for: scheduling, reading, changing and listing
//! jobs. `cargo run --release -p store --example measure_jobs [FOLDER]`

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use protocol::job::{Job, JobId, JobRequest, JobState, Status};
use store::JobStore;
use store::jobs::{ChangeExtras, ChangeResult, JobQuery};
use uuid::Uuid;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const TASKS: u32 = 64;
const CALLS_PER_TASK: u32 = 500;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let folder = std::env::args().nth(1).map(PathBuf::from);
    let folder = folder.unwrap_or_else(|| std::env::temp_dir().join("hotcell-measure-jobs"));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    let begun = Instant::now();
    let jobs = JobStore::open(&folder).await?;
    report("open, new", vec![begun.elapsed()], begun.elapsed())?;

    measure_alone(&jobs).await?;
    for round in 1..=3_u32 {
        let what = format!("schedule, {TASKS} at a time, round {round}");
        let next = Arc::new(AtomicU64::new(0));
        let name = Arc::new(move || {
            // Ids sort by age.
            id(u128::from(round) << 64 | u128::from(next.fetch_add(1, Ordering::Relaxed)))
        });
        run_tasks(&what, &jobs, CALLS_PER_TASK, move |jobs, _, _| {
            let name = name();
            async move {
                jobs.schedule(job(name), None).await?;
                Ok(())
            }
        })
        .await?;
    }
    read(&jobs).await?;
    change(&jobs).await?;
    list(&jobs).await?;
    drop(jobs);
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}

async fn measure_alone(jobs: &JobStore) -> Result<(), Failure> {
    let whole = Instant::now();
    let mut times = Vec::new();
    for number in 0..500 {
        let begun = Instant::now();
        jobs.schedule(job(id(number)), None).await?;
        times.push(begun.elapsed());
    }
    report("schedule, one at a time", times, whole.elapsed())
}

async fn read(jobs: &JobStore) -> Result<(), Failure> {
    for _ in 0..2 {
        let what = format!("read, {TASKS} at a time");
        run_tasks(
            &what,
            jobs,
            CALLS_PER_TASK * 4,
            |jobs, task, number| async move {
                let place = (task * CALLS_PER_TASK + number * 7) % (TASKS * CALLS_PER_TASK);
                let found = jobs.job(id(2 << 64 | u128::from(place))).await?;
                assert!(found.is_some());
                Ok(())
            },
        )
        .await?;
    }
    let whole = Instant::now();
    let mut times = Vec::new();
    for number in 0..5000 {
        let begun = Instant::now();
        jobs.job(id(1 << 64 | number)).await?;
        times.push(begun.elapsed());
    }
    report("read, one at a time", times, whole.elapsed())
}

async fn change(jobs: &JobStore) -> Result<(), Failure> {
    let what = format!("claim, {TASKS} at a time");
    run_tasks(&what, jobs, 100, |jobs, task, number| async move {
        let name = id(3 << 64 | u128::from(task * CALLS_PER_TASK + number));
        let mut job = jobs.job(name).await?.ok_or("it is gone")?;
        job.state = JobState::Running;
        job.epoch += 1;
        let changed = jobs.change(job, ChangeExtras::default()).await?;
        assert!(matches!(changed, ChangeResult::Saved(_)));
        Ok(())
    })
    .await
}

async fn list(jobs: &JobStore) -> Result<(), Failure> {
    let all = JobQuery {
        limit: 50,
        ..JobQuery::default()
    };
    let of_owner = JobQuery {
        owner: Some("somebody".into()),
        status: Some(Status::Pending),
        before: Some(id(2 << 64)),
        ..all.clone()
    };
    let rare = JobQuery {
        words: Some("number 31415".into()),
        ..all.clone()
    };
    let common = JobQuery {
        words: Some("todo app".into()),
        ..all.clone()
    };
    for (what, query) in [
        ("list of 50", all),
        ("list of 50 of an owner and status", of_owner),
        ("list by rare words", rare),
        ("list by words that all have", common),
    ] {
        let whole = Instant::now();
        let mut times = Vec::new();
        for _ in 0..20 {
            let begun = Instant::now();
            jobs.list(&query).await?;
            times.push(begun.elapsed());
        }
        report(what, times, whole.elapsed())?;
    }
    let whole = Instant::now();
    jobs.oldest_queued("somebody").await?;
    report("next in line", vec![whole.elapsed()], whole.elapsed())?;
    let whole = Instant::now();
    jobs.loads().await?;
    report("loads", vec![whole.elapsed()], whole.elapsed())
}

/// Runs an operation many times in each of many tasks.
async fn run_tasks<F>(
    what: &str,
    jobs: &JobStore,
    each: u32,
    work: impl Fn(JobStore, u32, u32) -> F + Clone + Send + 'static,
) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>> + Send,
{
    let whole = Instant::now();
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let jobs = jobs.clone();
            let work = work.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                for number in 0..each {
                    let begun = Instant::now();
                    work(jobs.clone(), task, number).await?;
                    times.push(begun.elapsed());
                }
                Ok::<_, Failure>(times)
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await??);
    }
    report(what, times, whole.elapsed())
}

fn id(number: u128) -> JobId {
    JobId(Uuid::from_u128(number))
}

fn job(id: JobId) -> Job {
    Job::new(
        id,
        "somebody".to_owned(),
        JobRequest {
            task: format!(
                "Build me a todo app, number {}, with tests",
                id.0.as_u128() as u64
            ),
            ..JobRequest::default()
        },
        Timestamp::now(),
    )
}

fn report(what: &str, mut times: Vec<Duration>, whole: Duration) -> Result<(), Failure> {
    times.sort();
    let at = |share: usize| times[(times.len() - 1) * share / 100].as_secs_f64() * 1e3;
    let (median, late) = (at(50), at(99));
    let rate = times.len() as f64 / whole.as_secs_f64();
    writeln!(
        std::io::stdout(),
        "{what}: {rate:.0}/s, median {median:.3} ms, 99 % {late:.3} ms, of {}",
        times.len()
    )?;
    Ok(())
}
