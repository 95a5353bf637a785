//! Every stop reason of a reply, over both APIs.

use llm::script::{ScriptedCall, ScriptedReply};
use protocol::{EventKind, Outcome, Stop};
use testkit::ModelServer;

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, done};

/// Runs a script for one prompt, and a second prompt after it.
async fn run_script(
    wire: Wire,
    replies: Vec<ScriptedReply>,
) -> (Outcome, TestAgent, ModelServer, SessionFixture) {
    let server = ModelServer::start(replies);
    let world = SessionFixture::new().await;
    let mut agent = world.start(wire.client(&server)).await;
    let outcome = agent.prompt("Begin.").await;
    (outcome, agent, server, world)
}

fn stopping(text: &str, stop: &str) -> ScriptedReply {
    ScriptedReply {
        stop: Some(stop.to_owned()),
        ..ScriptedReply::text(text)
    }
}

fn failed(reason: &str) -> Outcome {
    Outcome::Failed {
        reason: reason.to_owned(),
    }
}

#[test]
fn every_stop_reason_is_handled_and_the_session_goes_on() {
    run_with_timeout(async {
        for wire in WIRES {
            // The script, how the turn ends, and how many requests that takes.
            let check = async |script: Vec<ScriptedReply>, expect: Outcome, requests: usize| {
                let shown = format!("{wire:?} {:?}", script[0].stop());
                let mut script = script;
                script.push(done());
                let (outcome, mut agent, server, _world) = run_script(wire, script).await;
                assert_eq!(outcome, expect, "{shown}");
                assert_eq!(server.request_count(), requests, "{shown}");
                assert_eq!(agent.prompt("And now?").await, Outcome::Done, "{shown}");
                agent.end().await;
                server.finish();
            };
            check(vec![done()], Outcome::Done, 1).await;
            check(vec![bash("true"), done()], Outcome::Done, 2).await;
            check(vec![stopping("So far.", "stop_sequence")], Outcome::Done, 1).await;
            check(
                vec![stopping("Half a", "max_tokens"), done()],
                Outcome::Done,
                2,
            )
            .await;
            check(
                vec![stopping("I will not.", "refusal")],
                failed("the model refused"),
                1,
            )
            .await;
            // An unknown reason ends the turn.
            check(vec![stopping("New.", "something_new")], Outcome::Done, 1).await;
        }
    });
}

#[test]
fn stop_reasons_of_the_messages_api_are_handled() {
    run_with_timeout(async {
        let pausing = vec![stopping("First half ", "pause_turn"), done()];
        let (outcome, agent, server, _world) = run_script(Wire::Anthropic, pausing).await;
        assert_eq!(outcome, Outcome::Done);
        agent.end().await;
        let requests = server.finish();
        let messages = requests[1].json()["messages"].clone();
        assert_eq!(messages.as_array().unwrap().len(), 2, "sent back as it was");
        assert_eq!(messages[1]["role"], "assistant");

        let full = vec![stopping("Too much", "model_context_window_exceeded")];
        let (outcome, agent, _server, _world) = run_script(Wire::Anthropic, full).await;
        assert_eq!(
            outcome,
            failed("the conversation exceeds the model's context window")
        );
        agent.end().await;
    });
}

#[test]
fn a_request_that_is_too_long_fails_the_task() {
    run_with_timeout(async {
        for wire in WIRES {
            let message = match wire {
                Wire::Anthropic => "prompt is too long: 210000 tokens > 200000 maximum",
                Wire::OpenAi => "This model's maximum context length is 8192 tokens.",
            };
            let refusal = ScriptedReply::error(400, "invalid_request_error", message);
            let (outcome, mut agent, server, _world) =
                run_script(wire, vec![refusal, done()]).await;
            let Outcome::Failed { reason } = outcome else {
                panic!("{outcome:?}");
            };
            assert_contains(&reason, message);
            assert_eq!(agent.prompt("Shorter.").await, Outcome::Done);
            agent.end().await;
            server.finish();
        }
    });
}

/// A call whose input was cut off by the token limit is not run, and the model is told so.
#[test]
fn a_truncated_tool_call_is_not_run() {
    run_with_timeout(async {
        for wire in WIRES {
            let cut = ScriptedReply {
                calls: vec![
                    ScriptedCall {
                        raw: Some(r#"{"command": "touch whole"}"#.to_owned()),
                        ..bash("").calls[0].clone()
                    },
                    ScriptedCall {
                        raw: Some(r#"{"command": "touch cu"#.to_owned()),
                        ..bash("").calls[0].clone()
                    },
                ],
                stop: Some("max_tokens".to_owned()),
                ..ScriptedReply::default()
            };
            let (outcome, agent, server, world) = run_script(wire, vec![cut, done()]).await;
            assert_eq!(outcome, Outcome::Done);
            let results = agent.results();
            assert_eq!(results.len(), 2, "{results:?}");
            let broken = results.iter().find(|(_, is_error)| *is_error).unwrap();
            assert_contains(&broken.0, "Not run: ");
            let names = std::fs::read_dir(world.workspace()).unwrap().flatten();
            let names: Vec<_> = names.map(|entry| entry.file_name()).collect();
            assert_eq!(names, ["whole"]);
            agent.end().await;
            let last = String::from_utf8(server.finish()[1].body.to_vec()).unwrap();
            assert_contains(&last, "Not run: ");
        }
    });
}

#[test]
fn repeatedly_truncated_replies_end_the_turn() {
    run_with_timeout(async {
        let cut = || stopping("More and", "max_tokens");
        let (outcome, agent, server, _world) =
            run_script(Wire::Anthropic, vec![cut(), cut(), cut(), cut(), done()]).await;
        assert!(matches!(outcome, Outcome::Failed { .. }), "{outcome:?}");
        assert_eq!(server.request_count(), 4);
        agent.end().await;
    });
}

#[test]
fn refused_text_is_not_sent_back() {
    run_with_timeout(async {
        for wire in WIRES {
            let script = vec![stopping("Unspeakable words", "refusal"), done()];
            let (_, mut agent, server, _world) = run_script(wire, script).await;
            assert_eq!(agent.prompt("Something else.").await, Outcome::Done);
            agent.end().await;
            let requests = server.finish();
            let body = String::from_utf8(requests[1].body.to_vec()).unwrap();
            assert!(!body.contains("Unspeakable"), "{body}");
            assert_contains(&body, "Begin.");
            assert_contains(&body, "Something else.");
        }
    });
}

/// A reply of thinking alone, cut off by the limit, must not be at the end of a message.
#[test]
fn a_reply_of_only_thinking_leaves_a_valid_history() {
    run_with_timeout(async {
        let thought = ScriptedReply {
            thinking: Some("Hm, let me see".to_owned()),
            stop: Some("max_tokens".to_owned()),
            ..ScriptedReply::default()
        };
        let (outcome, agent, server, _world) =
            run_script(Wire::Anthropic, vec![thought, done()]).await;
        assert_eq!(outcome, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn thinking_is_sent_back_unchanged() {
    run_with_timeout(async {
        let thoughtful = ScriptedReply {
            thinking: Some("First I look.\u{2028}Then I leap.".to_owned()),
            ..bash("echo looked")
        };
        // The server verifies each signature, and that thinking stays with its calls.
        let (outcome, mut agent, server, _world) =
            run_script(Wire::Anthropic, vec![thoughtful, done(), done()]).await;
        assert_eq!(outcome, Outcome::Done);
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        agent.end().await;
        assert_eq!(server.finish().len(), 3);
    });
}

#[test]
fn events_contain_the_stop_reason() {
    run_with_timeout(async {
        let (_, agent, _server, _world) =
            run_script(Wire::Anthropic, vec![stopping("x", "something_new")]).await;
        let stops: Vec<Stop> = agent
            .kinds()
            .filter_map(|kind| match kind {
                EventKind::Replied { stop, .. } => Some(stop.clone()),
                _ => None,
            })
            .collect();
        assert_eq!(stops, [Stop::Other("something_new".to_owned())]);
        agent.end().await;
    });
}
