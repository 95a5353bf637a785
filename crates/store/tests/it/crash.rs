//! Files that were truncated or damaged by a crash of the machine.

use std::path::Path;

use protocol::Event;
use store::{SessionStore, StoreError};

use crate::{StoreFixture, id, prompt, reply};

/// Opens a store made of the given files and reads session 1.
async fn read_session(database: &[u8], log: &[u8]) -> Result<Vec<Event>, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    };
    write("sessions.db", database);
    write("sessions.db-wal", log);
    let store = SessionStore::open(folder.path()).await?;
    // Listing and searching must not panic either.
    let _ = store.sessions(&Default::default()).await;
    let _ = store.search("words", 0).await;
    let (_, events) = store.claim(&id(1)).await?;
    Ok(events)
}

/// The files of an open store, with the events that were written.
async fn store_files(world: &StoreFixture) -> (Vec<u8>, Vec<u8>, Vec<Event>) {
    let text = "words ".repeat(300);
    let kinds: Vec<_> = (1..12)
        .flat_map(|turn| [prompt(turn, &text), reply(&text.repeat(5), 1, Some(0.1))])
        .collect();
    world.session(1, &kinds).await;
    let events = world.store.events(&id(1)).await.unwrap();
    let file = |name: &str| std::fs::read(world.folder.join(Path::new(name))).unwrap();
    (file("sessions.db"), file("sessions.db-wal"), events)
}

#[tokio::test]
async fn a_log_cut_anywhere_yields_the_events_before() {
    let world = StoreFixture::new().await;
    let (database, log, events) = store_files(&world).await;
    assert!(log.len() > 100_000);
    let mut seen = Vec::new();
    for cut in (0..log.len()).step_by(log.len() / 150).chain([log.len()]) {
        match read_session(&database, &log[..cut]).await {
            Ok(found) => {
                assert_eq!(found, events[..found.len()], "cut at {cut}");
                seen.push(found.len());
            }
            // Before the session's first event.
            Err(StoreError::Unknown(_)) => assert!(seen.is_empty(), "cut at {cut}"),
            Err(error) => panic!("cut at {cut}: {error:?}"),
        }
    }
    assert!(seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&events.len()));
    seen.dedup();
    assert!(seen.len() > 10, "cuts between events as well: {seen:?}");
}

#[tokio::test]
async fn a_log_with_a_wrong_bit_yields_the_events_before() {
    let world = StoreFixture::new().await;
    let (database, mut log, events) = store_files(&world).await;
    for place in (0..log.len()).step_by(log.len() / 60) {
        log[place] ^= 16;
        match read_session(&database, &log).await {
            Ok(found) => assert_eq!(found, events[..found.len()], "wrong at {place}"),
            Err(StoreError::Unknown(_)) => {}
            Err(error) => panic!("wrong at {place}: {error:?}"),
        }
        log[place] ^= 16;
    }
}

#[tokio::test]
async fn a_cut_database_yields_the_truth_or_an_error() {
    let world = StoreFixture::new().await;
    let (_, _, events) = store_files(&world).await;
    world
        .run("sessions.db", "PRAGMA wal_checkpoint(TRUNCATE)")
        .await;
    let database = std::fs::read(world.folder.join("sessions.db")).unwrap();
    assert!(database.len() > 100_000);
    assert_eq!(read_session(&database, &[]).await.unwrap(), events);
    let mut errors = 0;
    for cut in (0..database.len()).step_by(database.len() / 150) {
        match read_session(&database[..cut], &[]).await {
            Ok(found) => assert_eq!(found, events[..found.len()], "cut at {cut}"),
            Err(_) => errors += 1,
        }
    }
    assert!(errors > 100, "{errors}");
}
