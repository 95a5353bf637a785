//! Records that cannot be decoded, and a database that another process keeps locked.

use std::error::Error as _;

use store::StoreError;
use store::jobs::{ChangeExtras, JobQuery, ScheduleResult};

use super::{JobState, JobsFixture, id, new};

#[tokio::test]
async fn what_cannot_be_understood_is_named_and_hides_nothing_else() {
    // The flag says whether a newer release wrote it.
    for (damage, is_newer) in [
        (
            "UPDATE jobs SET state = '{\"state\":\"from_the_future\"}' WHERE number = 2",
            true,
        ),
        (
            "UPDATE jobs SET request = '{\"task\":\"\",\"new\":1}' WHERE number = 2",
            true,
        ),
        ("UPDATE jobs SET state = '{\"sta' WHERE number = 2", false),
        ("UPDATE jobs SET request = x'ff00' WHERE number = 2", false),
        ("UPDATE jobs SET spending = '[]' WHERE number = 2", false),
        ("UPDATE jobs SET artifact = '' WHERE number = 2", false),
        ("UPDATE jobs SET session = 'none' WHERE number = 2", false),
        ("UPDATE jobs SET epoch = -1 WHERE number = 2", false),
        ("UPDATE jobs SET owner = x'fffe' WHERE number = 2", false),
    ] {
        let world = JobsFixture::new().await;
        for number in 1..=3 {
            world.schedule(number).await;
        }
        let ended = world.set_state(2, JobState::Complete).await;
        world.run(damage).await;
        for error in [
            world.jobs.job(id(2)).await.unwrap_err(),
            world.jobs.list(&JobQuery::default()).await.unwrap_err(),
            world.jobs.longest_ended(10).await.unwrap_err(),
        ] {
            let is_right = match &error {
                StoreError::NewerJob { job, .. } => is_newer && *job == id(2),
                StoreError::DamagedJob { job, .. } => !is_newer && *job == id(2),
                _ => false,
            };
            assert!(is_right, "{damage}: {error:?}");
            assert!(error.source().is_some());
        }
        assert_eq!(world.job(1).await, new(1));
        assert_eq!(world.job(3).await, new(3));
        // It can be deleted.
        assert!(world.jobs.forget(id(2), ended.revision).await.unwrap());
        assert_eq!(
            world.jobs.list(&JobQuery::default()).await.unwrap().len(),
            2
        );
    }
}

#[tokio::test]
async fn a_database_that_is_not_let_go_is_said_and_got_over() {
    let world = JobsFixture::new().await;
    let job = world.schedule(1).await;
    let mut other = world.sql().await;
    let run = async |other: &mut sqlx::SqliteConnection, sql| {
        sqlx::raw_sql(sql).execute(other).await.unwrap();
    };
    run(&mut other, "BEGIN IMMEDIATE").await;
    // They wait for the busy timeout, and fail together.
    let jobs = &world.jobs;
    let (new_one, change, check) = tokio::join!(
        jobs.schedule(new(2), None),
        jobs.change(job.clone(), ChangeExtras::default()),
        jobs.check(),
    );
    let said = |error: StoreError| {
        let source = error.source().unwrap().to_string();
        assert!(source.contains("database is locked"), "{source}");
        error.to_string()
    };
    assert_eq!(
        said(new_one.unwrap_err()),
        "cannot schedule a job in the store"
    );
    assert_eq!(
        said(change.unwrap_err()),
        "cannot change a job in the store"
    );
    assert_eq!(said(check.unwrap_err()), "cannot write in the store");
    // Reading was not affected, and writing works again.
    assert_eq!(world.job(1).await, job);
    run(&mut other, "ROLLBACK").await;
    jobs.check().await.unwrap();
    assert_eq!(
        jobs.schedule(new(2), None).await.unwrap(),
        ScheduleResult::New
    );
    super::saved(jobs.change(job, ChangeExtras::default()).await.unwrap());
}
