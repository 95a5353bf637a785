//! Deleted sessions leave no trace.

use store::{SessionQuery, StoreError};

use crate::checkpoints::{content, file};
use crate::{StoreFixture, id, prompt};

const SECRET: &str = "xyzzyplugh";

/// Whether the bytes occur in any file of the store.
fn contains_bytes(world: &StoreFixture, bytes: &[u8]) -> bool {
    let entries = std::fs::read_dir(&world.folder).unwrap();
    let files = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file());
    files
        .map(|path| std::fs::read(path).unwrap())
        .any(|content| content.windows(bytes.len()).any(|window| window == bytes))
}

async fn fill(world: &StoreFixture) {
    let text = format!("{SECRET} {}", "and more ".repeat(2000));
    world.session(1, &[prompt(1, &text)]).await;
    world.session(2, &[prompt(1, "something else")]).await;
    let output = SECRET.repeat(100_000).into_bytes();
    world.store.store_output(&id(1), output).await.unwrap();
    for (session, names) in [(1, &[SECRET, "shared"][..]), (2, &["shared"])] {
        let contents = names.iter().map(|name| content(name));
        world.store.put_contents(contents.collect()).await.unwrap();
        let files: Vec<_> = names.iter().map(|name| file(name)).collect();
        let saved = world
            .store
            .save_checkpoint(&id(session), 1, &files, 1 << 30)
            .await;
        saved.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_session_leaves_nothing() {
    let world = StoreFixture::new().await;
    fill(&world).await;
    assert!(contains_bytes(&world, SECRET.as_bytes()));
    let size = || {
        std::fs::metadata(world.folder.join("sessions.db"))
            .unwrap()
            .len()
    };
    // The grace period of the contents is over.
    world
        .run("checkpoints.db", "UPDATE contents SET wanted = 0")
        .await;

    world.store.delete(&id(1)).await.unwrap();
    let list = world
        .store
        .sessions(&SessionQuery::default())
        .await
        .unwrap();
    assert_eq!(list.len(), 1);
    for error in [
        world.store.summary(&id(1)).await.unwrap_err(),
        world.store.events(&id(1)).await.unwrap_err(),
        world.store.delete(&id(1)).await.unwrap_err(),
    ] {
        assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    }
    assert!(world.store.search(SECRET, 0).await.unwrap().is_empty());
    assert_eq!(world.store.output(&id(1), "output:1").await.unwrap(), None);
    assert_eq!(world.store.checkpoint(&id(1), 1).await.unwrap(), None);
    assert_eq!(world.store.content(&content(SECRET).0).await.unwrap(), None);
    assert!(
        !contains_bytes(&world, SECRET.as_bytes()),
        "in no file of the store"
    );
    assert!(size() < 200_000, "{} bytes were not given back", size());

    // The other session is unchanged.
    assert_eq!(world.store.events(&id(2)).await.unwrap().len(), 2);
    assert_eq!(world.store.search("something", 0).await.unwrap().len(), 1);
    assert!(world.store.checkpoint(&id(2), 1).await.unwrap().is_some());
    assert!(
        world
            .store
            .content(&content("shared").0)
            .await
            .unwrap()
            .is_some()
    );
    // The name can be used again.
    world.session(1, &[]).await;
    assert_eq!(world.store.events(&id(1)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_session_in_use_is_not_deleted() {
    let world = StoreFixture::new().await;
    let journal = world.begin(1).await;
    let error = world.again().await.delete(&id(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
    assert_eq!(world.store.events(&id(1)).await.unwrap().len(), 1);
    drop(journal);
    world.store.delete(&id(1)).await.unwrap();
}

#[tokio::test]
async fn a_damaged_session_can_be_deleted() {
    let world = StoreFixture::new().await;
    fill(&world).await;
    world
        .run("checkpoints.db", "UPDATE contents SET wanted = 0")
        .await;
    let damage = "UPDATE checkpoints SET files = x'ffffffff' WHERE id = 1";
    world.run("checkpoints.db", damage).await;
    world
        .run("sessions.db", "UPDATE events SET body = 'x'")
        .await;
    let error = world.store.checkpoint(&id(1), 1).await.unwrap_err();
    assert!(
        matches!(error, StoreError::DamagedCheckpoint { number: 1, .. }),
        "{error:?}"
    );

    world.store.delete(&id(1)).await.unwrap();
    assert_eq!(world.store.content(&content(SECRET).0).await.unwrap(), None);
    assert!(
        world
            .store
            .content(&content("shared").0)
            .await
            .unwrap()
            .is_some()
    );
    let runs = "SELECT runs FROM contents";
    assert_eq!(world.number("checkpoints.db", runs).await, 1);
}
