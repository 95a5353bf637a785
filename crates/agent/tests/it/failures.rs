//! Failures of the provider or the connection, and how the session survives them.

use std::collections::HashSet;

use llm::script::{ScriptedError, ScriptedReply};
use protocol::{EventKind, Outcome};
use testkit::{ModelServer, RawChunk, RecordedRequest, Replies, ScriptedAnswer};

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, done};

fn failing(status: u16, kind: &str, after: Option<usize>) -> ScriptedAnswer {
    let error = ScriptedError {
        status,
        kind: kind.to_owned(),
        message: "sorry".to_owned(),
        after,
        headers: Vec::new(),
    };
    ScriptedAnswer::reply(ScriptedReply {
        error: Some(error),
        ..ScriptedReply::text("one two three")
    })
}

fn retries(agent: &TestAgent) -> usize {
    let is_retry = |kind: &&EventKind| matches!(kind, EventKind::Retrying { .. });
    agent.kinds().filter(is_retry).count()
}

/// Texts of all replies so far.
fn said(agent: &TestAgent) -> Vec<String> {
    agent
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::Replied { content, .. } => Some(crate::harness::text(content)),
            _ => None,
        })
        .collect()
}

#[test]
fn transient_errors_are_retried() {
    run_with_timeout(async {
        for wire in WIRES {
            let garbage = |bytes: &'static [u8]| ScriptedAnswer::raw([RawChunk::bytes(bytes)]);
            let failures = vec![
                failing(408, "timeout_error", None),
                failing(409, "conflict_error", None),
                failing(429, "rate_limit_error", None),
                failing(500, "api_error", None),
                failing(502, "api_error", None),
                failing(503, "overloaded_error", None),
                failing(504, "timeout_error", None),
                failing(529, "overloaded_error", None),
                failing(529, "overloaded_error", Some(0)),
                failing(500, "api_error", Some(3)),
                ScriptedAnswer::body(502, "text/html", "<h1>Bad gateway</h1>"),
                ScriptedAnswer::hang_up(),
                garbage(b""),
                garbage(b"data: {\"type\": \"message_st\n\n"),
                garbage(b"\xff\xfe\x00data\n\n"),
                garbage(b"<html>not a stream</html>"),
                ScriptedAnswer::reply(done()).insert(2, "data: {broken\n\n"),
            ];
            let count = failures.len();
            let script = failures
                .into_iter()
                .flat_map(|failure| [failure, done().into()]);
            let server = ModelServer::start(Replies::list(script));
            let world = SessionFixture::new().await;
            let mut agent = world.start(wire.client(&server)).await;
            for number in 1..=count {
                let outcome = agent.prompt("Try.").await;
                assert_eq!(outcome, Outcome::Done, "{wire:?} {number}");
                assert_eq!(server.request_count(), 2 * number, "{wire:?} {number}");
                assert_eq!(retries(&agent), number);
            }
            assert_eq!(said(&agent), vec!["Done."; count]);
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn permanent_errors_end_the_turn_but_not_the_session() {
    run_with_timeout(async {
        for wire in WIRES {
            let world = SessionFixture::new().await;
            // The failure, and how often it is retried before the turn ends.
            let failures = [
                (failing(401, "authentication_error", None), 1),
                (failing(403, "permission_error", None), 1),
                (failing(404, "not_found_error", None), 1),
                (failing(400, "invalid_request_error", None), 1),
                (
                    failing(529, "overloaded_error", None).with_header("x-should-retry", "false"),
                    1,
                ),
                (failing(529, "overloaded_error", None), 6),
                (ScriptedAnswer::hang_up(), 6),
            ];
            let script = failures.iter().flat_map(|(failure, times)| {
                let mut answers = vec![failure.clone(); *times];
                answers.push(done().into());
                answers
            });
            let server = ModelServer::start(Replies::list(script.collect::<Vec<_>>()));
            let mut agent = world.start(wire.client(&server)).await;
            let mut expected = 0;
            for (failure, times) in &failures {
                let outcome = agent.prompt("Try.").await;
                let Outcome::Provider { reason, .. } = outcome else {
                    panic!("{failure:?}: {outcome:?}");
                };
                assert!(!reason.is_empty());
                expected += times;
                assert_eq!(server.request_count(), expected, "{failure:?}");
                assert_eq!(agent.prompt("Again.").await, Outcome::Done, "{failure:?}");
                expected += 1;
            }
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn a_turn_ended_by_the_provider_can_be_continued() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo first"),
            ScriptedReply::error(401, "authentication_error", "no"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let outcome = agent.prompt("Do it.").await;
        assert!(matches!(outcome, Outcome::Provider { .. }), "{outcome:?}");
        agent.send(protocol::AgentCommand::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        let requests = server.finish();
        assert_eq!(
            requests[1].json()["messages"],
            requests[2].json()["messages"],
            "nothing was lost, nothing was made up"
        );
    });
}

/// Answers prompts of the form `cut N` with a reply that breaks off after N events, once each.
fn cut_replies(cut: impl Fn(ScriptedReply, usize) -> ScriptedAnswer + Send + 'static) -> Replies {
    let mut seen = HashSet::new();
    Replies::decide(move |request: &RecordedRequest| {
        let body = request.json();
        let last = body["messages"].as_array().unwrap().last().unwrap().clone();
        let content = last["content"].to_string();
        if last["role"] == "tool" || content.contains("tool_result") {
            return done().into();
        }
        let (_, number) = content.rsplit_once("cut ").unwrap();
        let digits = number.split(|letter: char| !letter.is_ascii_digit());
        let number = digits.into_iter().next().unwrap().parse().unwrap();
        let reply = ScriptedReply {
            text: Some("I count.".to_owned()),
            ..bash("echo x >> count")
        };
        if seen.insert(number) {
            cut(reply, number)
        } else {
            reply.into()
        }
    })
}

async fn check_cuts(wire: Wire, replies: Replies) {
    /// More than the events of the reply, on either wire.
    const EVENTS: usize = 20;
    let server = ModelServer::start(replies);
    let world = SessionFixture::new().await;
    let mut agent = world.start(wire.client(&server)).await;
    for number in 0..EVENTS {
        let outcome = agent.prompt(&format!("cut {number}")).await;
        assert_eq!(outcome, Outcome::Done, "{wire:?} {number}");
        let done = number + 1;
        assert_eq!(world.read("count").lines().count(), done, "run once");
        let said = said(&agent);
        let replies = said.iter().filter(|text| *text == "I count.");
        assert_eq!(replies.count(), done, "{wire:?}: {said:?}");
    }
    assert!(retries(&agent) >= 8, "{wire:?}: {}", retries(&agent));
    agent.end().await;
    server.finish();
}

#[test]
fn a_stream_that_breaks_anywhere_is_retried() {
    run_with_timeout(async {
        for wire in WIRES {
            let broken = |mut reply: ScriptedReply, after| {
                reply.cut_after = Some(after);
                reply.into()
            };
            check_cuts(wire, cut_replies(broken)).await;
        }
    });
}

#[test]
fn a_truncated_stream_is_retried() {
    run_with_timeout(async {
        for wire in WIRES {
            let ended = |reply: ScriptedReply, after| ScriptedAnswer::reply(reply).end_after(after);
            check_cuts(wire, cut_replies(ended)).await;
        }
    });
}

#[test]
fn errors_include_the_message_of_the_provider() {
    run_with_timeout(async {
        let refusal = ScriptedReply::error(400, "invalid_request_error", "that is not how");
        let server = ModelServer::start(refusal);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        match agent.prompt("Try.").await {
            Outcome::Provider { reason, .. } => assert_contains(&reason, "that is not how"),
            other => panic!("{other:?}"),
        }
        agent.end().await;
    });
}
