//! Forks.

use jiff::Timestamp;
use protocol::{EventKind, Fork};
use serde_json::json;
use store::{FileRecord, StoreError};

use crate::checkpoints::{content, file};
use crate::{StoreFixture, append, end, id, kind, kinds, prompt, tool_ended};

fn now() -> Timestamp {
    "2026-05-01T00:00:00Z".parse().unwrap()
}

async fn save(world: &StoreFixture, number: u32, name: &str) -> Vec<FileRecord> {
    let (hash, bytes) = content(name);
    world.store.put_contents(vec![(hash, bytes)]).await.unwrap();
    let files = vec![file(name)];
    let saved = world
        .store
        .save_checkpoint(&id(1), number, &files, u64::MAX)
        .await;
    saved.unwrap();
    files
}

fn checkpoint_made(number: u32) -> EventKind {
    kind(
        json!({"type": "checkpoint_made", "turn": number, "moment": "before",
        "checkpoint": {"number": number, "files": 0, "bytes": 0}}),
    )
}

#[tokio::test]
async fn a_fork_has_what_the_other_had_by_then() {
    let world = StoreFixture::new().await;
    let session = world
        .session(
            1,
            &[
                prompt(1, "common words"),
                checkpoint_made(1),
                tool_ended(Some("output:1")),
                checkpoint_made(2),
                tool_ended(Some("output:2")),
                end(1),
            ],
        )
        .await;
    let first = save(&world, 1, "one").await;
    save(&world, 2, "two").await;
    for output in ["first", "second"] {
        let kept = world.store.store_output(&session, output.into()).await;
        kept.unwrap();
    }
    let original = world.store.events(&id(1)).await.unwrap();

    let (mut journal, events) = world.store.fork(&id(1), 4, id(2), now()).await.unwrap();
    assert_eq!(kinds(&events)[1..], kinds(&original)[1..4]);
    assert!(events.iter().all(|event| event.session == id(2)));
    let EventKind::SessionStarted { forked_from, .. } = &events[0].kind else {
        panic!("{:?}", events[0])
    };
    let expect = Fork {
        session: id(1),
        seq: 4,
    };
    assert_eq!(forked_from.as_ref(), Some(&expect));
    assert_eq!(world.store.events(&id(2)).await.unwrap(), events);
    let summary = world.store.summary(&id(2)).await.unwrap();
    assert_eq!(
        (summary.begun, summary.title.as_str()),
        (now(), "common words")
    );
    assert_eq!((summary.events, summary.outcome), (4, None));

    let output = async |handle| world.store.output(&id(2), handle).await.unwrap();
    assert_eq!(output("output:1").await.as_deref(), Some(&b"first"[..]));
    assert_eq!(output("output:2").await, None);
    let files = async |number| world.store.checkpoint(&id(2), number).await.unwrap();
    assert_eq!(files(1).await, Some(first));
    assert_eq!(files(2).await, None);
    assert_eq!(world.store.search("common", 0).await.unwrap().len(), 2);

    // From here on they are independent.
    assert_eq!(append(&mut journal, end(1)).await.seq, Some(5));
    assert_eq!(world.store.events(&id(1)).await.unwrap(), original);
    drop(journal);
    world.store.delete(&id(1)).await.unwrap();
    let (_, events) = world.store.claim(&id(2)).await.unwrap();
    assert_eq!(events.len(), 5);
    assert_eq!(output("output:1").await.as_deref(), Some(&b"first"[..]));
    assert!(files(1).await.is_some());
    assert!(
        world
            .store
            .content(&content("one").0)
            .await
            .unwrap()
            .is_some()
    );
}

#[tokio::test]
async fn a_fork_is_cut_to_what_there_is() {
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x"), end(1)]).await;
    for (number, seq, expect) in [(2, 0, 1), (3, 1, 1), (4, 3, 3), (5, u64::MAX, 3)] {
        let forked = world.store.fork(&id(1), seq, id(number), now()).await;
        let (_, events) = forked.unwrap();
        assert_eq!(events.len(), expect, "{seq}");
        let EventKind::SessionStarted {
            forked_from: Some(fork),
            ..
        } = &events[0].kind
        else {
            panic!("{:?}", events[0])
        };
        assert_eq!(fork.seq, expect as u64);
    }
}

#[tokio::test]
async fn fields_of_a_newer_release_come_along() {
    let world = StoreFixture::new().await;
    world
        .session(1, &[EventKind::Noted { text: "x".into() }])
        .await;
    let more = "UPDATE events SET body = json_set(body, '$.new', 'y')";
    world.run("sessions.db", more).await;
    let _fork = world.store.fork(&id(1), 2, id(2), now()).await.unwrap();
    let kept = "SELECT count(*) FROM events WHERE body LIKE '%\"new\":\"y\"%'";
    assert_eq!(world.number("sessions.db", kept).await, 4);
}

#[tokio::test]
async fn only_what_exists_is_forked_to_what_does_not() {
    let world = StoreFixture::new().await;
    world.session(1, &[]).await;
    world.session(2, &[]).await;
    let error = world.store.fork(&id(3), 1, id(4), now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let error = world.store.fork(&id(1), 1, id(2), now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
    let error = world.store.fork(&id(1), 1, id(1), now()).await.unwrap_err();
    assert!(matches!(error, StoreError::Exists(_)), "{error:?}");
    // A session that is open for writing can be forked, and the fork is open for writing too.
    let _writer = world.store.claim(&id(1)).await.unwrap();
    let _fork = world.store.fork(&id(1), 1, id(4), now()).await.unwrap();
    let error = world.store.claim(&id(4)).await.unwrap_err();
    assert!(matches!(error, StoreError::InUse(_)), "{error:?}");
}
