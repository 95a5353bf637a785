//! Opening a store: new, of an older or newer release, and in unsuitable places.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use store::{SessionQuery, SessionStore, StoreError};

use crate::checkpoints::{content, file};
use crate::{StoreFixture, connect, id, prompt};

#[tokio::test]
async fn only_the_owner_can_read_it() {
    let world = StoreFixture::new().await;
    let _journal = world.begin(1).await;
    let saved = world.store.save_checkpoint(&id(1), 1, &[], 0).await;
    saved.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&world.folder), 0o700);
    assert_eq!(mode(&world.folder.join("locks")), 0o700);
    let mut count = 0;
    for folder in [world.folder.clone(), world.folder.join("locks")] {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                assert_eq!(mode(&path), 0o600, "{path:?}");
                count += 1;
            }
        }
    }
    // Two databases, each with its log and index, and a lock of the session and the migration.
    assert_eq!(count, 8);
}

#[tokio::test]
async fn an_empty_file_becomes_a_store() {
    let parent = tempfile::tempdir().unwrap();
    for file in ["sessions.db", "checkpoints.db"] {
        std::fs::write(parent.path().join(file), "").unwrap();
    }
    let store = SessionStore::open(parent.path()).await.unwrap();
    assert!(
        store
            .sessions(&SessionQuery::default())
            .await
            .unwrap()
            .is_empty()
    );
    assert!(store.checkpoint(&id(1), 1).await.unwrap().is_none());
    let mut connection = connect(&parent.path().join("sessions.db")).await;
    let version: i64 = sqlx::query_scalar("PRAGMA user_version")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(version, 1);
}

#[tokio::test]
async fn a_newer_store_is_left_alone() {
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x")]).await;
    world.run("sessions.db", "PRAGMA user_version = 2").await;
    let error = SessionStore::open(&world.folder).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    assert_eq!(world.number("sessions.db", "PRAGMA user_version").await, 2);
    assert_eq!(
        world
            .number("sessions.db", "SELECT count(*) FROM events")
            .await,
        2
    );

    let world = StoreFixture::new().await;
    world.store.missing(&[]).await.unwrap();
    world
        .run("checkpoints.db", "PRAGMA user_version = 99")
        .await;
    let store = world.again().await;
    let error = store.checkpoint(&id(1), 1).await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
    let error = store.open_all().await.unwrap_err();
    assert!(matches!(error, StoreError::Newer { .. }), "{error:?}");
}

#[tokio::test]
async fn what_is_no_store_is_not_touched() {
    let parent = tempfile::tempdir().unwrap();
    let text = "this is no database, but long enough to be taken for one".repeat(100);
    std::fs::write(parent.path().join("sessions.db"), &text).unwrap();
    let error = SessionStore::open(parent.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
    let after = std::fs::read(parent.path().join("sessions.db")).unwrap();
    assert_eq!(after, text.into_bytes());
}

#[tokio::test]
async fn where_nothing_can_be_written_there_is_no_store() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    std::fs::write(&file, "").unwrap();
    let folder = parent.path().join("folder");
    std::fs::create_dir_all(folder.join("sessions.db")).unwrap();
    // Not even root can write to the last one.
    for place in [&file.join("store"), &folder, Path::new("/proc/self/store")] {
        let error = SessionStore::open(place).await.unwrap_err();
        assert!(matches!(error, StoreError::Open { .. }), "{error:?}");
        assert!(error.to_string().starts_with("cannot open the store `"));
        assert!(std::error::Error::source(&error).is_some());
    }
}

#[tokio::test]
async fn many_can_open_a_new_store_at_once() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("store");
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let folder = folder.clone();
            tokio::spawn(async move {
                let store = SessionStore::open(&folder).await?;
                let name = number.to_string();
                let (hash, bytes) = content(&name);
                store.put_contents(vec![(hash, bytes)]).await?;
                let files = [file(&name)];
                store.save_checkpoint(&id(number), 1, &files, 1 << 20).await
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap().unwrap();
    }
}
