//! The start of a session: ready before the first prompt, stored only from then on.

use llm::script::ScriptedReply;
use protocol::{Backend, Event, EventKind, Outcome, Strength};
use store::{SessionQuery, StoreError};

use crate::harness::{SessionFixture, assert_contains, run_with_timeout};
use crate::models::{bash, done, scripted};

fn is_ready(kind: &EventKind) -> bool {
    matches!(kind, EventKind::Ready { .. })
}

fn lasting(events: &[Event]) -> Vec<&EventKind> {
    let events = events.iter().map(|event| &event.kind);
    events.filter(|kind| kind.is_lasting()).collect()
}

#[test]
fn a_session_without_a_turn_stores_nothing() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let change = |setup: &mut agent::SessionSetup| setup.model.window = Some(200_000);
        let mut agent = world.start_with(scripted(vec![done()]), change).await;
        match agent.until(is_ready).await {
            EventKind::Ready {
                model,
                window,
                sandbox,
                workspace,
                asks,
            } => {
                assert_eq!(workspace, world.workspace().display().to_string());
                assert!(!model.is_empty());
                assert_eq!(window, Some(200_000));
                assert_eq!(sandbox.backend, Backend::Native);
                assert_eq!(sandbox.strength, Some(Strength::Namespaces));
                assert!(sandbox.reason.starts_with("not probed"), "{sandbox:?}");
                assert!(sandbox.walls.len() > 3, "{sandbox:?}");
                assert!(
                    sandbox.limits["memory"].starts_with("2G by "),
                    "{sandbox:?}"
                );
                assert_eq!((sandbox.network.len(), asks), (0, false));
            }
            _ => unreachable!(),
        }
        agent.end().await;
        let summary = world.store.summary(&world.session).await;
        assert!(
            matches!(summary, Err(StoreError::Unknown(_))),
            "{summary:?}"
        );
        let all = SessionQuery {
            workspace: None,
            before: None,
            limit: 10,
        };
        assert_eq!(world.store.sessions(&all).await.unwrap().len(), 0);
    });
}

#[test]
fn a_session_is_stored_from_its_first_turn_on() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let replies = vec![bash("echo hi"), done(), ScriptedReply::text("Again.")];
        let model = scripted(replies);
        let mut agent = world.start(model.clone()).await;
        agent.until(is_ready).await;
        assert_eq!(agent.prompt("Hello.").await, Outcome::Done);
        let events = agent.end().await;
        let kinds = lasting(&events);
        assert!(matches!(kinds[0], EventKind::SessionStarted { .. }));
        assert!(matches!(kinds[1], EventKind::TurnStarted { .. }));
        assert!(matches!(kinds[2], EventKind::SandboxStarted { .. }));
        let count = |events: &[Event]| events.iter().filter(|event| is_ready(&event.kind)).count();
        assert_eq!(count(&events), 1);

        // A resumed session is ready too, and is started only once.
        let mut agent = world.start(model).await;
        agent.until(is_ready).await;
        assert_eq!(agent.seen.len(), 1, "{:?}", agent.seen);
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        let events = agent.end().await;
        assert_eq!(count(&events), 1);
        let started = |kind: &EventKind| matches!(kind, EventKind::SessionStarted { .. });
        assert!(!events.iter().any(|event| started(&event.kind)));
    });
}

#[test]
fn a_sandbox_that_cannot_start_ends_an_idle_session() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let nowhere = world.outside("nowhere");
        let change = |setup: &mut agent::SessionSetup| setup.sandbox.workspace = nowhere;
        let agent = world.start_with(scripted(vec![done()]), change).await;
        let error = agent.failed().await;
        assert_contains(&error.to_string(), "nowhere");
        let summary = world.store.summary(&world.session).await;
        assert!(
            matches!(summary, Err(StoreError::Unknown(_))),
            "{summary:?}"
        );
    });
}
