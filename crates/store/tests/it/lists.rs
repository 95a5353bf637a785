//! Lists of sessions.

use jiff::Timestamp;
use store::{SessionQuery, SessionSummary, StoreError};

use crate::{StoreFixture, append, end, id, prompt, reply, start, undo};

fn names(list: &[SessionSummary]) -> Vec<String> {
    list.iter()
        .map(|summary| summary.session.to_string())
        .collect()
}

#[tokio::test]
async fn a_summary_follows_the_events() {
    let world = StoreFixture::new().await;
    let begun: Timestamp = "2026-01-31T10:00:00Z".parse().unwrap();
    let ended: Timestamp = "2026-01-31T11:00:00Z".parse().unwrap();
    let mut journal = world.store.begin(id(1)).await.unwrap();
    journal.append(begun, start("/w")).await.unwrap();
    journal
        .append(begun, prompt(1, "fix it\nnow"))
        .await
        .unwrap();
    journal
        .append(begun, reply("a", 10, Some(0.25)))
        .await
        .unwrap();
    let summary = world.store.summary(&id(1)).await.unwrap();
    assert_eq!(summary.outcome, None);
    journal.append(ended, end(1)).await.unwrap();
    // The clock was set back.
    journal.append(begun, prompt(2, "again")).await.unwrap();
    journal.append(begun, undo(2)).await.unwrap();

    let summary = world.store.summary(&id(1)).await.unwrap();
    assert_eq!((summary.begun, summary.changed), (begun, ended));
    assert_eq!(summary.title, "fix it");
    assert_eq!(
        (summary.workspace.as_str(), summary.model.as_str()),
        ("/w", "model")
    );
    assert_eq!((summary.turns, summary.events), (1, 6));
    assert_eq!(
        (summary.usage.input_tokens, summary.usage.output_tokens),
        (10, 20)
    );
    assert_eq!(summary.cost, Some(0.25));
    assert_eq!(summary.outcome.as_deref(), Some("done"));
    assert_eq!(
        world
            .store
            .sessions(&SessionQuery::default())
            .await
            .unwrap(),
        [summary]
    );

    append(&mut journal, reply("b", 1, None)).await;
    assert_eq!(world.store.summary(&id(1)).await.unwrap().cost, None);
}

#[tokio::test]
async fn names_are_found_by_their_beginnings() {
    let world = StoreFixture::new().await;
    for number in [1, 2, 70] {
        world.session(number, &[]).await;
    }
    let find = async |name: &str| world.store.find(name).await;
    assert_eq!(find(id(1).as_str()).await.unwrap(), id(1));
    assert_eq!(find("20260101-0001").await.unwrap(), id(70));
    let error = find("20260101-0000").await.unwrap_err();
    assert!(
        matches!(error, StoreError::Ambiguous { count: 2, .. }),
        "{error:?}"
    );
    let error = find("").await.unwrap_err();
    assert!(
        matches!(error, StoreError::Ambiguous { count: 3, .. }),
        "{error:?}"
    );
    for unknown in [
        "2027",
        "%",
        "_",
        "*",
        "~",
        "' OR 1",
        "20260101-000001-zzzzz",
        "\0",
    ] {
        let error = find(unknown).await.unwrap_err();
        assert!(
            matches!(error, StoreError::Unknown(_)),
            "{unknown}: {error:?}"
        );
    }
}

#[tokio::test]
async fn ten_thousand_sessions_are_listed_in_pages() {
    let world = StoreFixture::new().await;
    world.session(1, &[]).await;
    let copies = "
        WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 9999)
        INSERT INTO sessions
        SELECT 1 + n, printf('20260202-%06d-abcd', n), begun, changed, title,
            iif(n % 100 = 0, '/other', workspace), model, turns, 0, 0, 0, 0, cost, outcome, events
        FROM sessions, n";
    world.run("sessions.db", copies).await;

    let mut page = SessionQuery {
        limit: 50,
        ..SessionQuery::default()
    };
    let mut all = Vec::new();
    loop {
        let part = world.store.sessions(&page).await.unwrap();
        let Some(last) = part.last() else { break };
        assert!(part.len() <= 50);
        page.before = Some(last.session.clone());
        all.extend(part);
    }
    let whole = world
        .store
        .sessions(&SessionQuery::default())
        .await
        .unwrap();
    assert_eq!(whole.len(), 10_000);
    assert_eq!(all, whole);
    assert!(
        names(&whole).is_sorted_by(|one, other| one > other),
        "newest first"
    );

    let page = SessionQuery {
        workspace: Some("/other".into()),
        before: Some("20260202-005000-abcd".parse().unwrap()),
        limit: 2,
    };
    let part = world.store.sessions(&page).await.unwrap();
    assert_eq!(
        names(&part),
        ["20260202-004900-abcd", "20260202-004800-abcd"]
    );
}
