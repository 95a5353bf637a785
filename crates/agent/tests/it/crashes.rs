//! A process that dies after any event leaves a session that can be resumed.

use llm::script::ScriptedReply;
use protocol::{AgentCommand, EventKind, Outcome};
use serde_json::json;
use testkit::{ModelServer, Replies, ScriptedAnswer, StreamGate};

use crate::harness::{SessionFixture, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, calls, done};

/// A session with something of each kind.
fn script() -> Vec<ScriptedReply> {
    let thoughtful = ScriptedReply {
        thinking: Some("What have we here?".to_owned()),
        text: Some("I look around.".to_owned()),
        ..calls(&[
            ("list_files", json!({})),
            ("read_file", json!({"path": "file"})),
            ("bash", json!({"command": "echo more >> file; seq 1 50000"})),
        ])
    };
    let broken = ScriptedReply {
        stop: Some("max_tokens".to_owned()),
        ..bash("echo never")
    };
    vec![
        thoughtful,
        ScriptedReply::call("read_file", json!({"path": "output:1", "offset": 40000})),
        ScriptedReply {
            stop: Some("max_tokens".to_owned()),
            ..ScriptedReply::text("And now")
        },
        done(),
        broken,
        ScriptedReply {
            stop: Some("refusal".to_owned()),
            ..ScriptedReply::text("No.")
        },
        bash("echo last > other"),
        done(),
    ]
}

async fn recorded_session(wire: Wire) -> SessionFixture {
    let server = ModelServer::start(script());
    let world = SessionFixture::new().await;
    world.write("file", "first\n");
    let mut agent = world.start(wire.client(&server)).await;
    assert_eq!(agent.prompt("One.").await, Outcome::Done);
    let outcome = agent.prompt("Two.").await;
    assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
    assert!(matches!(agent.undo().await, EventKind::Undone { .. }));
    assert_eq!(agent.prompt("Three.").await, Outcome::Done);
    agent.end().await;
    server.finish();
    world
}

#[test]
fn a_session_resumes_from_every_event() {
    run_with_timeout(async {
        for wire in WIRES {
            let mut world = recorded_session(wire).await;
            let whole = world.session.clone();
            let events = world.events().await;
            assert!(events.len() > 20, "{}", events.len());
            let server = ModelServer::start(Replies::decide(|_| done()));
            for seq in 1..=events.len() as u64 {
                world.session = whole.clone();
                world.fork(seq).await;
                let mut agent = world.start(wire.client(&server)).await;
                let last = &events[seq as usize - 1].kind;
                agent.send(AgentCommand::Continue).await;
                let over = |kind: &EventKind| {
                    matches!(
                        kind,
                        EventKind::CommandRefused { .. } | EventKind::TurnEnded { .. }
                    )
                };
                match agent.until(over).await {
                    EventKind::TurnEnded { outcome, .. } => {
                        assert_eq!(outcome, Outcome::Done, "{seq} {last:?}");
                    }
                    _ => assert_eq!(
                        agent.prompt("Go on.").await,
                        Outcome::Done,
                        "{seq} {last:?}"
                    ),
                }
                assert_eq!(agent.prompt("More.").await, Outcome::Done, "{seq} {last:?}");
                agent.end().await;
                let faults = server.violations();
                assert!(faults.is_empty(), "{wire:?} {seq} {last:?}: {faults:?}");
            }
        }
    });
}

#[test]
fn a_new_prompt_can_replace_continuing() {
    run_with_timeout(async {
        let mut world = recorded_session(Wire::Anthropic).await;
        let whole = world.session.clone();
        let count = world.events().await.len() as u64;
        let server = ModelServer::start(Replies::decide(|_| done()));
        for seq in 1..=count {
            world.session = whole.clone();
            world.fork(seq).await;
            let mut agent = world.start(Wire::Anthropic.client(&server)).await;
            assert_eq!(agent.prompt("Now this.").await, Outcome::Done, "{seq}");
            // All turns can still be undone one by one.
            while let EventKind::Undone { .. } = agent.undo().await {}
            assert_eq!(agent.prompt("Anew.").await, Outcome::Done, "{seq}");
            agent.end().await;
            let faults = server.violations();
            assert!(faults.is_empty(), "{seq}: {faults:?}");
            let messages = server.requests().last().unwrap().json()["messages"].clone();
            assert_eq!(messages.as_array().unwrap().len(), 1, "{seq}: {messages}");
        }
    });
}

/// The process is really killed, in the middle of a call.
#[test]
fn a_killed_call_gets_a_result_that_says_so() {
    run_with_timeout(async {
        for wire in WIRES {
            let server = ModelServer::start([bash("echo started >> file; sleep 1000"), done()]);
            let world = SessionFixture::new().await;
            let mut agent = world.start(wire.client(&server)).await;
            agent.send(AgentCommand::prompt("Work.")).await;
            let started = |kind: &EventKind| matches!(kind, EventKind::ToolStarted { .. });
            agent.until(started).await;
            agent.kill().await;

            let mut agent = world.start(wire.client(&server)).await;
            agent.send(AgentCommand::Continue).await;
            assert_eq!(agent.ended().await, Outcome::Done);
            agent.end().await;
            let requests = server.finish();
            let body = String::from_utf8(requests[1].body.to_vec()).unwrap();
            assert_contains(&body, "It may or may not have taken effect");
        }
    });
}

#[test]
fn a_killed_reply_is_requested_again() {
    run_with_timeout(async {
        let gate = StreamGate::new();
        let held = ScriptedAnswer::reply(ScriptedReply::text("one two three")).hold(4, &gate);
        let server = ModelServer::start([held, done().into()]);
        let world = SessionFixture::new().await;
        let agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::prompt("Work.")).await;
        gate.reached().await;
        agent.kill().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(AgentCommand::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        let requests = server.finish();
        assert_eq!(
            requests[0].json()["messages"],
            requests[1].json()["messages"]
        );
    });
}

#[test]
fn a_finished_session_has_nothing_to_continue() {
    run_with_timeout(async {
        let server = ModelServer::start([done(), done()]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let refused = |kind: &EventKind| matches!(kind, EventKind::CommandRefused { .. });
        agent.send(AgentCommand::Continue).await;
        agent.until(refused).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.send(AgentCommand::Continue).await;
        agent.until(refused).await;
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        agent.end().await;
    });
}
