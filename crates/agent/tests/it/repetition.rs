//! A model that repeats itself is warned, then stopped; one that polls a job is not.

use llm::script::ScriptedReply;
use protocol::{EventKind, Outcome};
use serde_json::json;
use testkit::{ModelServer, Replies};

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, done};

fn notes(agent: &TestAgent) -> Vec<String> {
    agent
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::Noted { text } => Some(text.clone()),
            _ => None,
        })
        .collect()
}

#[test]
fn a_repeated_call_is_warned_about_and_then_ends_the_turn() {
    run_with_timeout(async {
        for wire in WIRES {
            let server = ModelServer::start(Replies::decide(|request| match request.number {
                9.. => done(),
                _ => bash("cat missing"),
            }));
            let world = SessionFixture::new().await;
            let mut agent = world.start(wire.client(&server)).await;
            match agent.prompt("Work.").await {
                Outcome::Failed { reason } => assert_contains(&reason, "`bash` 8 times"),
                other => panic!("{other:?}"),
            }
            assert_eq!(server.request_count(), 8);
            let notes_sent = notes(&agent);
            assert_eq!(notes_sent.len(), 4, "{notes_sent:?}");
            assert_contains(&notes_sent[0], "`bash` 4 times");
            let fifth = String::from_utf8(server.requests()[4].body.to_vec()).unwrap();
            assert_contains(&fifth, "Doing it again will not help");
            // The turn was stopped, not the session.
            assert_eq!(agent.prompt("Otherwise.").await, Outcome::Done);
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn polling_a_job_is_not_a_repetition() {
    run_with_timeout(async {
        let start =
            ScriptedReply::call("bash", json!({"command": "sleep 1000", "background": true}));
        let poll = || {
            let input = json!({"job": 1, "action": "poll", "wait": 0});
            ScriptedReply::call("bash_job", input)
        };
        let mut script = vec![start];
        script.extend((0..20).map(|_| poll()));
        script.push(done());
        let server = ModelServer::start(script);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Wait.").await, Outcome::Done);
        let results = agent.results();
        assert_eq!(results.len(), 21);
        for (text, is_error) in &results[1..] {
            assert!(!is_error);
            assert_contains(text, "running in the background as job 1");
        }
        assert!(notes(&agent).is_empty());
        agent.end().await;
    });
}

#[test]
fn polling_an_unknown_job_is_a_repetition() {
    run_with_timeout(async {
        let poll = || ScriptedReply::call("bash_job", json!({"job": 7, "action": "poll"}));
        let server = ModelServer::start(Replies::decide(move |_| poll()));
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let outcome = agent.prompt("Wait.").await;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        agent.end().await;
    });
}
