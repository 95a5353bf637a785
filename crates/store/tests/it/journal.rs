//! Appended events are stored exactly and in order.

use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{Block, EVENT_VERSION, Event, EventKind};
use serde_json::{Value, json};
use store::StoreError;

use crate::{StoreFixture, append, end, id, kinds, prompt, reply, start, tool_ended, undo};

#[tokio::test]
async fn events_come_back_as_they_were() {
    let world = StoreFixture::new().await;
    let mut journal = world.store.begin(id(1)).await.unwrap();
    assert_eq!(journal.session(), &id(1));
    let mut written = Vec::new();
    for kind in [
        start("/w"),
        prompt(1, "ein \"Wort\", 中文, \u{0}, \u{2028}"),
        reply("so be it", 3, Some(0.1 + 0.2)),
        tool_ended(Some("output:1")),
        EventKind::Noted {
            text: String::new(),
        },
        end(1),
    ] {
        let time: Timestamp = "2026-01-31T17:45:02.123456789Z".parse().unwrap();
        written.push(journal.append(time, kind).await.unwrap());
    }
    let seqs: Vec<_> = written.iter().map(|event| event.seq.unwrap()).collect();
    assert_eq!(seqs, [1, 2, 3, 4, 5, 6]);
    assert!(written.iter().all(|event| event.v == EVENT_VERSION));
    assert_eq!(world.store.events(&id(1)).await.unwrap(), written);
    let last = async |number, kind: &str| world.store.last_event(&id(number), kind).await.unwrap();
    assert_eq!(last(1, "session_started").await.as_ref(), written.first());
    assert_eq!(last(1, "turn_ended").await.as_ref(), written.last());
    assert_eq!(last(1, "sandbox_started").await, None);
    assert_eq!(last(2, "session_started").await, None);

    drop(journal);
    let (mut journal, claimed) = world.again().await.claim(&id(1)).await.unwrap();
    assert_eq!(claimed, written);
    assert_eq!(append(&mut journal, undo(1)).await.seq, Some(7));
}

#[tokio::test]
async fn an_input_nested_as_deep_as_can_be_comes_back() {
    let deep = format!("{}1{}", "[".repeat(127), "]".repeat(127));
    let input: Value = serde_json::from_str(&deep).unwrap();
    let mut kind = reply("", 1, None);
    if let EventKind::Replied { content, .. } = &mut kind {
        content.push(Block::ToolUse {
            id: "c".into(),
            name: "bash".into(),
            input,
        });
    }
    let world = StoreFixture::new().await;
    world.session(1, std::slice::from_ref(&kind)).await;
    assert_eq!(world.store.events(&id(1)).await.unwrap()[1].kind, kind);
}

#[tokio::test]
async fn a_session_begins_with_its_start() {
    let world = StoreFixture::new().await;
    let mut journal = world.store.begin(id(1)).await.unwrap();
    let refused = journal.append(Timestamp::now(), prompt(1, "x")).await;
    assert!(matches!(refused, Err(StoreError::NotStarted(_))));
    // Nothing is stored until then.
    let unknown = world.store.summary(&id(1)).await;
    assert!(matches!(unknown, Err(StoreError::Unknown(_))));

    assert_eq!(append(&mut journal, start("/w")).await.seq, Some(1));
    let delta = EventKind::TextDelta { text: "x".into() };
    let refused = journal.append(Timestamp::now(), delta).await;
    assert!(matches!(refused, Err(StoreError::Fleeting(_))));
    assert_eq!(append(&mut journal, end(1)).await.seq, Some(2));

    drop(journal);
    let taken = world.store.begin(id(1)).await;
    assert!(matches!(taken, Err(StoreError::Exists(_))));
}

#[tokio::test]
async fn an_append_that_is_no_longer_waited_for_is_carried_out() {
    let world = StoreFixture::new().await;
    let mut journal = world.begin(1).await;
    for round in 0..50 {
        {
            let mut append = Box::pin(journal.append(Timestamp::now(), prompt(round, "dropped")));
            // One poll starts the append but does not finish it.
            let waker = std::task::Waker::noop();
            let mut context = std::task::Context::from_waker(waker);
            let _ = append.as_mut().poll(&mut context);
        }
        let event = append(&mut journal, end(round)).await;
        assert_eq!(event.seq, Some(u64::from(round) * 2 + 3));
    }
    drop(journal);
    let (_, events) = world.store.claim(&id(1)).await.unwrap();
    assert_eq!(events.len(), 101);
}

#[tokio::test]
async fn a_damaged_event_is_named() {
    for damage in [
        "UPDATE events SET body = '{\"type\":\"noted\"' WHERE seq = 2",
        "UPDATE events SET body = x'ff00' WHERE seq = 2",
        "DELETE FROM events WHERE seq = 2",
    ] {
        let world = StoreFixture::new().await;
        world.session(1, &[prompt(1, "x"), end(1)]).await;
        world.run("sessions.db", damage).await;
        let error = world.store.claim(&id(1)).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Damaged { seq: 2, .. }),
            "{damage}: {error:?}"
        );
        let text = error.to_string();
        assert_eq!(text, format!("cannot read event 2 of session `{}`", id(1)));
    }
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x"), end(1)]).await;
    world
        .run("sessions.db", "DELETE FROM events WHERE seq = 3")
        .await;
    let error = world.store.events(&id(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { seq: 3, .. }));
}

#[tokio::test]
async fn events_of_a_newer_release_are_kept_and_refused() {
    for future in [
        "UPDATE events SET body = '{\"type\":\"from_the_future\",\"x\":1}' WHERE seq = 2",
        "UPDATE events SET version = 2 WHERE seq = 2",
    ] {
        let world = StoreFixture::new().await;
        world.session(1, &[prompt(1, "x"), end(1)]).await;
        world.run("sessions.db", future).await;
        let before = world.number("sessions.db", "SELECT sum(length(body)) FROM events");
        let before = before.await;
        let error = world.store.claim(&id(1)).await.unwrap_err();
        assert!(
            matches!(error, StoreError::NewerEvent { seq: 2, .. }),
            "{error:?}"
        );
        // The session can be forked up to that event, and it is listed.
        let forked = world.store.fork(&id(1), 1, id(2), Timestamp::now()).await;
        assert_eq!(forked.unwrap().1.len(), 1);
        assert_eq!(world.store.summary(&id(1)).await.unwrap().events, 3);
        let after = "SELECT sum(length(body)) FROM events WHERE session = 1";
        assert_eq!(world.number("sessions.db", after).await, before);
    }
}

#[tokio::test]
async fn fields_of_a_newer_release_are_ignored() {
    let world = StoreFixture::new().await;
    world
        .session(1, &[EventKind::Noted { text: "x".into() }])
        .await;
    let more = "UPDATE events SET body = json_set(body, '$.new', 'y') WHERE seq = 2";
    world.run("sessions.db", more).await;
    let (mut journal, events) = world.store.claim(&id(1)).await.unwrap();
    assert_eq!(events[1].kind, EventKind::Noted { text: "x".into() });
    append(&mut journal, end(1)).await;
    let kept = "SELECT count(*) FROM events WHERE body LIKE '%\"new\":\"y\"%'";
    assert_eq!(world.number("sessions.db", kept).await, 1);
}

fn any_kind() -> impl Strategy<Value = EventKind> {
    let turn = 1..5_u32;
    prop_oneof![
        (turn.clone(), ".{0,20}").prop_map(|(turn, text)| prompt(turn, &text)),
        (0..1000_u64, proptest::option::of(0.0..2.0_f64))
            .prop_map(|(tokens, cost)| reply("words", tokens, cost)),
        turn.clone().prop_map(end),
        turn.clone().prop_map(undo),
        turn.prop_map(|turn| EventKind::TurnContinued { turn }),
        Just(tool_ended(None)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Folding events one by one, with the session reopened in between, gives the same summary as folding
    /// all.
    #[test]
    fn summaries_do_not_depend_on_who_folds_when(
        steps in prop::collection::vec((any_kind(), any::<bool>()), 1..12)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let world = StoreFixture::new().await;
            let (mut whole, mut parts) = (world.begin(1).await, world.begin(2).await);
            let time = world.store.events(&id(1)).await.unwrap()[0].time;
            for (kind, reopen) in &steps {
                whole.append(time, kind.clone()).await.unwrap();
                parts.append(time, kind.clone()).await.unwrap();
                if *reopen {
                    drop(parts);
                    parts = world.store.claim(&id(2)).await.unwrap().0;
                }
            }
            let one = world.store.summary(&id(1)).await.unwrap();
            let mut other = world.store.summary(&id(2)).await.unwrap();
            other.session = one.session.clone();
            (other.begun, other.changed) = (one.begun, one.changed);
            assert_eq!(one, other);
            let (one, other) = (world.store.events(&id(1)).await, world.store.events(&id(2)).await);
            assert_eq!(kinds(&one.unwrap()), kinds(&other.unwrap()));
        });
    }
}

#[tokio::test]
async fn kinds_can_be_asked_for_by_name() {
    let world = StoreFixture::new().await;
    world.session(1, &[prompt(1, "x"), end(1)]).await;
    let mut connection = world.sql("sessions.db").await;
    let names: Vec<String> = sqlx::query_scalar("SELECT kind FROM events ORDER BY seq")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(
        json!(names),
        json!(["session_started", "turn_started", "turn_ended"])
    );
}

#[tokio::test]
async fn events_are_read_in_parts() {
    let world = StoreFixture::new().await;
    let kinds: Vec<_> = (1..=9).map(|turn| prompt(turn, "x")).collect();
    world.session(1, &kinds).await;
    world.session(2, &kinds[..2]).await;
    let all = world.store.events(&id(1)).await.unwrap();
    assert_eq!(all.len(), 10);
    let check = async |after: u64, limit: u32, expect: &[Event]| {
        let found = world.store.events_after(&id(1), after, limit).await;
        assert_eq!(found.unwrap(), expect, "{limit} after {after}");
    };
    check(0, 100, &all).await;
    check(0, 3, &all[..3]).await;
    check(3, 3, &all[3..6]).await;
    check(9, 3, &all[9..]).await;
    check(10, 3, &[]).await;
    check(u64::MAX, 3, &[]).await;
    check(0, 0, &[]).await;
    let unknown = world.store.events_after(&id(3), 0, 10).await.unwrap();
    assert_eq!(unknown, []);

    // A missing event is an error, but the events after it can be read.
    world
        .run(
            "sessions.db",
            "DELETE FROM events WHERE session = 1 AND seq = 5",
        )
        .await;
    let error = world.store.events_after(&id(1), 2, 10).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Damaged { seq: 5, .. }),
        "{error:?}"
    );
    check(2, 2, &all[2..4]).await;
    check(5, 10, &all[5..]).await;
    world
        .run(
            "sessions.db",
            "DELETE FROM events WHERE session = 1 AND seq = 10",
        )
        .await;
    let error = world.store.events_after(&id(1), 6, 10).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Damaged { seq: 10, .. }),
        "{error:?}"
    );
    check(6, 2, &all[6..8]).await;
}
