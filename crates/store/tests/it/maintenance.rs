//! Maintenance of a store by a server: measuring sessions, truncating WALs, backups.

use std::os::unix::fs::PermissionsExt;

use store::SessionStore;

use crate::checkpoints::{content, file};
use crate::{StoreFixture, append, connect, id, prompt};

#[tokio::test]
async fn nothing_is_left_in_the_logs_of_a_store_that_was_settled() {
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x")]).await;
    world.store.missing(&[]).await.unwrap();
    let size = |name: &str| {
        let log = std::fs::metadata(world.folder.join(name));
        log.map_or(0, |log| log.len())
    };
    assert!(size("sessions.db-wal") > 0);
    world.store.settle().await.unwrap();
    for log in ["sessions.db-wal", "checkpoints.db-wal"] {
        assert_eq!(size(log), 0, "{log}");
    }
}

#[tokio::test]
async fn a_session_is_measured_with_all_that_was_kept_for_it() {
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x")]).await;
    let before = world.store.size(&id(1)).await.unwrap();
    assert!(before.events > 0);
    assert_eq!((before.outputs, before.checkpoints), (0, 0));
    let kept = world.store.store_output(&id(1), vec![b'a'; 1234]).await;
    kept.unwrap();
    let contents = vec![content("one"), content("two")];
    world.store.put_contents(contents).await.unwrap();
    for number in [1, 2] {
        let files = [file("one"), file("two")];
        let saved = world
            .store
            .save_checkpoint(&id(1), number, &files, 1 << 30)
            .await;
        saved.unwrap();
    }
    let after = world.store.size(&id(1)).await.unwrap();
    assert_eq!((after.events, after.outputs), (before.events, 1234));
    // Each content counts once, plus two lists of files.
    assert!((2000..2400).contains(&after.checkpoints), "{after:?}");
    assert_eq!(world.store.checkpoint_count(&id(1)).await.unwrap(), 2);
    assert_eq!(world.store.size(&id(2)).await.unwrap().total(), 0);
}

#[tokio::test]
async fn a_store_in_use_is_copied_and_the_copy_is_a_store() {
    let world = StoreFixture::new().await;
    let mut journal = world.begin(1).await;
    world.store.missing(&[]).await.unwrap();
    let target = tempfile::tempdir().unwrap();
    store::backup(&world.folder, target.path()).await.unwrap();
    // Later events are not in the copy.
    append(&mut journal, prompt(1, "later")).await;
    let copy = SessionStore::open(target.path()).await.unwrap();
    assert_eq!(copy.events(&id(1)).await.unwrap().len(), 1);
    assert_eq!(world.store.events(&id(1)).await.unwrap().len(), 2);
    for name in ["sessions.db", "checkpoints.db"] {
        let path = target.path().join(name);
        let mut connection = connect(&path).await;
        let mode: String = sqlx::query_scalar("PRAGMA journal_mode")
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(mode, "wal", "{name}");
        for (pragma, expect) in [("PRAGMA user_version", 1), ("PRAGMA auto_vacuum", 2)] {
            let found: i64 = sqlx::query_scalar(pragma)
                .fetch_one(&mut connection)
                .await
                .unwrap();
            assert_eq!(found, expect, "{name} {pragma}");
        }
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    // An existing file is never overwritten.
    let again = store::backup(&world.folder, target.path()).await;
    assert!(again.is_err());
}
