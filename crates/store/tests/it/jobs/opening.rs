//! Opening the jobs: new, in the folder of sessions, of a newer release, and in unsuitable places.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::jobs::{JobQuery, ScheduleResult};
use store::{JobStore, SessionStore, StoreError};

use super::{JobsFixture, new};
use crate::{connect, prompt, start};

#[tokio::test]
async fn only_the_owner_can_read_them() {
    let world = JobsFixture::new().await;
    world.schedule(1).await;
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.folder), 0o700);
    for file in ["jobs.db", "jobs.db-wal", "jobs.db-shm", "locks/migration"] {
        assert_eq!(mode(&world.folder.join(file)), 0o600, "{file}");
    }
}

#[tokio::test]
async fn an_empty_file_becomes_a_store_of_jobs() {
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("jobs.db"), "").unwrap();
    let jobs = JobStore::open(parent.path()).await.unwrap();
    assert_eq!(
        jobs.schedule(new(1), None).await.unwrap(),
        ScheduleResult::New
    );
    let mut connection = connect(&parent.path().join("jobs.db")).await;
    let version: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(version, 3);
}

#[tokio::test]
async fn newer_jobs_are_left_alone() {
    let world = JobsFixture::new().await;
    world.schedule(1).await;
    world.run("PRAGMA user_version = 99").await;
    let error = JobStore::open(&world.folder).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .ends_with("jobs.db` was written by a newer hotcell")
    );
    assert_eq!(world.number("PRAGMA user_version").await, 99);
    assert_eq!(world.number("SELECT count(*) FROM jobs").await, 1);
}

#[tokio::test]
async fn what_is_no_store_is_not_touched() {
    let parent = tempfile::tempdir().unwrap();
    let text = "this is no database, but long enough to be taken for one".repeat(100);
    let path = parent.path().join("jobs.db");
    std::fs::write(&path, &text).unwrap();
    let error = JobStore::open(parent.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    assert_eq!(std::fs::read(&path).unwrap(), text.into_bytes());

    // A database of another program.
    let parent = tempfile::tempdir().unwrap();
    std::fs::write(parent.path().join("jobs.db"), "").unwrap();
    let mut connection = connect(&parent.path().join("jobs.db")).await;
    let foreign = "CREATE TABLE jobs (title TEXT); INSERT INTO jobs VALUES ('baker')";
    sqlx::raw_sql(foreign)
        .execute(&mut connection)
        .await
        .unwrap();
    let error = JobStore::open(parent.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let title: String = sqlx::query_scalar("SELECT title FROM jobs")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(title, "baker");

    for place in ["/proc/self/store", "/dev/null/store"] {
        let error = JobStore::open(Path::new(place)).await.unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_can_open_new_ones_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("store");
    let tasks: Vec<_> = (1..=8)
        .map(|number| {
            let folder = folder.clone();
            tokio::spawn(async move {
                let jobs = JobStore::open(&folder).await?;
                jobs.schedule(new(number), None).await
            })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap(), ScheduleResult::New);
    }
    let jobs = JobStore::open(&folder).await.unwrap();
    assert_eq!(jobs.list(&JobQuery::default()).await.unwrap().len(), 8);
}

/// A server deletes the session of one job while other jobs write to theirs.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_beside_them_are_deleted_while_others_are_written() {
    let world = JobsFixture::new().await;
    let store = SessionStore::open(&world.folder).await.unwrap();
    let tasks: Vec<_> = (0..8_u32)
        .map(|number| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut journal = store.begin(crate::id(number)).await.unwrap();
                crate::append(&mut journal, start("/w")).await;
                for turn in 1..=40 {
                    crate::append(&mut journal, prompt(turn, "words")).await;
                    let session = crate::id(1000 + number * 100 + turn);
                    let mut other = store.begin(session.clone()).await.unwrap();
                    crate::append(&mut other, start("/w")).await;
                    drop(other);
                    store.delete(&session).await.unwrap();
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    for number in 0..8 {
        assert_eq!(store.events(&crate::id(number)).await.unwrap().len(), 41);
    }
    assert_eq!(store.sessions(&Default::default()).await.unwrap().len(), 8);
}
