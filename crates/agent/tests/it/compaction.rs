//! Compaction: the model writes a summary that replaces the conversation, if it is valid and shorter.

use llm::script::ScriptedReply;
use protocol::{AgentCommand, EventKind, Outcome, Usage};
use serde_json::{Value, json};
use testkit::{ModelServer, Replies, ScriptedAnswer, StreamGate};

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{WIRES, Wire, bash, done};

const SUMMARY_TEXT: &str = "The file is made; nothing is left to do.";

fn long_reply() -> ScriptedReply {
    ScriptedReply::text("many words ".repeat(200))
}

async fn compact(agent: &mut TestAgent) -> EventKind {
    agent.send(AgentCommand::Compact).await;
    let said = |kind: &EventKind| {
        matches!(
            kind,
            EventKind::Compacted { .. } | EventKind::CommandRefused { .. }
        )
    };
    agent.until(said).await
}

fn messages(body: &Value) -> &Vec<Value> {
    body["messages"].as_array().unwrap()
}

#[test]
fn the_model_continues_with_the_first_prompt_and_the_summary() {
    run_with_timeout(async {
        for wire in WIRES {
            let server = ModelServer::start([
                bash("echo something > file"),
                long_reply(),
                ScriptedReply::text(SUMMARY_TEXT),
                done(),
                done(),
            ]);
            let world = SessionFixture::new().await;
            let mut agent = world.start(wire.client(&server)).await;
            assert_eq!(agent.prompt("The task as given.").await, Outcome::Done);
            let seen = agent.seen.len();
            let compacted = compact(&mut agent).await;
            assert!(
                matches!(&compacted, EventKind::Compacted { summary, .. } if summary == SUMMARY_TEXT),
                "{compacted:?}"
            );
            // The summary is not shown as a reply.
            let sent = agent.seen[seen..].iter().map(|event| &event.kind);
            let sent: Vec<&EventKind> = sent
                .filter(|kind| !matches!(kind, EventKind::CheckpointMade { .. }))
                .collect();
            let [
                EventKind::RequestStarted { .. },
                EventKind::Spent { spending },
                EventKind::Compacted { usage, .. },
            ] = sent[..]
            else {
                panic!("{sent:?}");
            };
            assert_eq!(spending.requests, 3);
            assert!(usage.output_tokens > 0, "{usage:?}");
            assert_eq!(agent.prompt("Then this.").await, Outcome::Done);
            agent.end().await;
            // A resumed session sends the same messages.
            let mut agent = world.start(wire.client(&server)).await;
            assert_eq!(agent.prompt("And that.").await, Outcome::Done);
            agent.end().await;

            let requests: Vec<Value> = server.finish().iter().map(|one| one.json()).collect();
            let (last, asked, after) = (&requests[1], &requests[2], &requests[3]);
            // Everything but the instruction is unchanged, so that the provider's cache applies.
            for part in ["system", "tools"] {
                assert_eq!(last[part], asked[part], "{part}");
            }
            let text = Value::to_string;
            assert_contains(&text(asked), "many words");
            let instruction = messages(asked).last().unwrap();
            assert_eq!(instruction["role"], "user");
            assert_contains(&text(instruction), "what is left to do");
            let after_all = text(&after["messages"]);
            let after_all = after_all.as_str();
            assert_contains(after_all, "The task as given.");
            assert_contains(after_all, SUMMARY_TEXT);
            assert_contains(after_all, "Then this.");
            assert!(!after_all.contains("many words"), "{after_all}");
            assert!(!after_all.contains("echo something"), "{after_all}");
            let resumed = text(&requests[4]["messages"]);
            assert_contains(&resumed, SUMMARY_TEXT);
            assert!(!resumed.contains("many words"), "{resumed}");
        }
    });
}

#[test]
fn an_invalid_summary_is_refused_and_charged() {
    run_with_timeout(async {
        let usage = Usage {
            input_tokens: 60,
            output_tokens: 40,
            ..Usage::default()
        };
        let cut = ScriptedReply {
            stop: Some("max_tokens".into()),
            ..ScriptedReply::text(SUMMARY_TEXT)
        };
        let both = ScriptedReply {
            text: Some(SUMMARY_TEXT.into()),
            ..bash("rm -r /workspace/file")
        };
        for (reply, expect) in [
            (ScriptedReply::default(), "empty"),
            (ScriptedReply::text(" \n "), "empty"),
            (ScriptedReply::text("even more ".repeat(400)), "not shorter"),
            (cut, "cut off"),
            (both, "called tools"),
            (
                ScriptedReply::error(400, "invalid_request_error", "no more of it"),
                "no more of it",
            ),
        ] {
            let reply = ScriptedReply {
                usage: Some(usage),
                ..reply
            };
            let is_error = reply.error.is_some();
            let server = ModelServer::start([long_reply(), reply, done()]);
            let world = SessionFixture::new().await;
            world.write("file", "old\n");
            let mut agent = world.start(Wire::Anthropic.client(&server)).await;
            assert_eq!(agent.prompt("The task.").await, Outcome::Done);
            match compact(&mut agent).await {
                EventKind::CommandRefused { reason } => assert_contains(&reason, expect),
                other => panic!("{other:?}"),
            }
            let spent = agent.kinds().filter_map(|kind| match kind {
                EventKind::Spent { spending } => Some(spending.clone()),
                _ => None,
            });
            let spent: Vec<_> = spent.collect();
            let [first, second] = &spent[..] else {
                panic!("{expect}: {spent:?}");
            };
            assert_eq!(second.requests, 2, "{expect}");
            let more = second.usage.total() - first.usage.total();
            assert_eq!(more, if is_error { 0 } else { 100 }, "{expect}");
            assert_eq!(world.read("file"), "old\n");
            assert_eq!(agent.prompt("Go on.").await, Outcome::Done);
            agent.end().await;
            let last = server.finish().pop().unwrap().json();
            let roles = messages(&last).iter().map(|one| one["role"].clone());
            let roles: Vec<Value> = roles.collect();
            assert_eq!(
                json!(roles),
                json!(["user", "assistant", "user"]),
                "{expect}"
            );
            assert_contains(&last.to_string(), "many words");
            assert!(!last.to_string().contains("summary"), "{expect}");
        }
    });
}

#[test]
fn a_running_compaction_can_be_interrupted() {
    run_with_timeout(async {
        let gate = StreamGate::new();
        let held = ScriptedAnswer::reply(ScriptedReply::text(SUMMARY_TEXT)).hold(3, &gate);
        let answers = vec![long_reply().into(), held, done().into()];
        let server = ModelServer::start(Replies::list::<ScriptedAnswer>(answers));
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("The task.").await, Outcome::Done);
        agent.send(AgentCommand::Compact).await;
        gate.reached().await;
        // Sent while it runs, handled after it.
        agent.send(AgentCommand::prompt("Go on.")).await;
        assert_contains(&agent.refused(AgentCommand::Interrupt).await, "interrupted");
        server.hung_up(1).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        let last = server.finish().pop().unwrap().json();
        assert_contains(&last.to_string(), "many words");
    });
}

#[test]
fn undo_and_redo_work_across_a_summary() {
    run_with_timeout(async {
        let server = ModelServer::start([
            long_reply(),
            long_reply(),
            ScriptedReply::text(SUMMARY_TEXT),
            done(),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::OpenAi.client(&server)).await;
        assert_eq!(agent.prompt("The task.").await, Outcome::Done);
        assert_eq!(agent.prompt("The second words.").await, Outcome::Done);
        let compacted = compact(&mut agent).await;
        assert!(matches!(compacted, EventKind::Compacted { .. }));
        let undone = agent.undo().await;
        assert!(matches!(undone, EventKind::Undone { turn: 2, .. }));
        let redone = agent.redo().await;
        assert!(matches!(redone, EventKind::Redone { turn: 2, .. }));
        assert_eq!(agent.prompt("Third words.").await, Outcome::Done);
        agent.undo().await;
        agent.undo().await;
        assert_eq!(agent.prompt("Fourth words.").await, Outcome::Done);
        agent.end().await;
        let requests: Vec<String> = server
            .finish()
            .iter()
            .map(|one| one.json()["messages"].to_string())
            .collect();
        assert_contains(&requests[3], SUMMARY_TEXT);
        assert!(!requests[3].contains("many words"), "{}", requests[3]);
        assert_contains(&requests[4], "many words");
        assert!(!requests[4].contains(SUMMARY_TEXT), "{}", requests[4]);
        assert!(!requests[4].contains("The second words."));
    });
}

#[test]
fn compaction_requires_messages_and_budget() {
    run_with_timeout(async {
        let server = ModelServer::start([long_reply()]);
        let world = SessionFixture::new().await;
        let once = |setup: &mut agent::SessionSetup| setup.budget.turns = Some(1);
        let mut agent = world
            .start_with(Wire::Anthropic.client(&server), once)
            .await;
        assert_contains(
            &agent.refused(AgentCommand::Compact).await,
            "the conversation is empty",
        );
        assert_eq!(agent.prompt("The task.").await, Outcome::Done);
        assert_contains(&agent.refused(AgentCommand::Compact).await, "budget");
        agent.end().await;
        server.finish();
    });
}

#[test]
fn an_unfinished_turn_continues_after_a_summary() {
    run_with_timeout(async {
        let gate = StreamGate::new();
        let held = ScriptedAnswer::reply(long_reply()).hold(9, &gate);
        let answers = vec![
            long_reply().into(),
            held,
            ScriptedReply::text(SUMMARY_TEXT).into(),
            done().into(),
        ];
        let server = ModelServer::start(Replies::list::<ScriptedAnswer>(answers));
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("The task.").await, Outcome::Done);
        agent.send(AgentCommand::prompt("More.")).await;
        gate.reached().await;
        agent.send(AgentCommand::Interrupt).await;
        assert_eq!(agent.ended().await, Outcome::Interrupted);
        let compacted = compact(&mut agent).await;
        assert!(
            matches!(compacted, EventKind::Compacted { .. }),
            "{compacted:?}"
        );
        agent.send(AgentCommand::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
        server.finish();
    });
}
