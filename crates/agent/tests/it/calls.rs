//! Tool calls: concurrent or one by one, and every way to call one wrongly.

use llm::script::{ScriptedCall, ScriptedReply};
use protocol::{AgentCommand, EventKind, Outcome};
use serde_json::{Value, json};
use testkit::ModelServer;
use tokio::sync::watch;
use tools::{ToolAccess, ToolSet};

use crate::harness::{SessionFixture, TestAgent, assert_contains, fixed_tools, run_with_timeout};
use crate::models::{WIRES, Wire, calls, done};
use crate::stubs;

#[test]
fn read_only_calls_run_concurrently() {
    run_with_timeout(async {
        let names: Vec<_> = ["a", "b", "c", "d"]
            .map(|name| ("meet", json!({"name": name})))
            .to_vec();
        let server = ModelServer::start([calls(&names), done()]);
        let world = SessionFixture::new().await;
        // Each waits for all others: one by one, none would ever end.
        let (barrier_tool, mut log) = stubs::barrier_tool("meet", ToolAccess::Reads, 4);
        let model = Wire::Anthropic.client(&server);
        let change =
            |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![barrier_tool]);
        let mut agent = world.start_with(model, change).await;
        assert_eq!(agent.prompt("Meet.").await, Outcome::Done);
        let log = log.rest();
        assert!(log[..4].iter().all(|line| line.starts_with("begin")));
        assert!(log[4..].iter().all(|line| line.starts_with("end")));
        agent.end().await;
    });
}

#[test]
fn changing_calls_run_one_by_one_in_order() {
    run_with_timeout(async {
        let names: Vec<_> = ["a", "b", "c"]
            .map(|name| ("change", json!({"name": name})))
            .to_vec();
        let server = ModelServer::start([calls(&names), done()]);
        let world = SessionFixture::new().await;
        let (change, mut log) = stubs::barrier_tool("change", ToolAccess::Changes, 1);
        let model = Wire::Anthropic.client(&server);
        let tools = |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![change]);
        let mut agent = world.start_with(model, tools).await;
        assert_eq!(agent.prompt("Change.").await, Outcome::Done);
        let expect = ["begin a", "end a", "begin b", "end b", "begin c", "end c"];
        assert_eq!(log.rest(), expect);
        agent.end().await;
    });
}

#[test]
fn events_carry_the_summary_of_the_tool() {
    run_with_timeout(async {
        let asked = [
            ("oracle", json!({"name": "Delphi"})),
            ("nobody", json!({"url": "http://x"})),
        ];
        let server = ModelServer::start([calls(&asked), done()]);
        let world = SessionFixture::new().await;
        let (oracle, _log) = stubs::barrier_tool("oracle", ToolAccess::Reads, 1);
        let tools = |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![oracle]);
        let mut agent = world
            .start_with(Wire::Anthropic.client(&server), tools)
            .await;
        assert_eq!(agent.prompt("Ask.").await, Outcome::Done);
        let mut seen: Vec<String> = agent
            .kinds()
            .filter_map(|kind| match kind {
                EventKind::ToolStarted { summary, .. } => Some(format!("started: {summary}")),
                EventKind::ToolEnded { summary, .. } => {
                    let summary = summary.as_ref().unwrap();
                    Some(format!("ended: {summary}, {:?}", summary.detail))
                }
                _ => None,
            })
            .collect();
        seen.sort();
        let expect = [
            "ended: nobody http://x, \"\"",
            "ended: oracle Delphi, \"6 letters\"",
            "started: oracle Delphi",
        ];
        assert_eq!(seen, expect);
        agent.end().await;
    });
}

#[test]
fn a_read_sees_exactly_the_changes_before_it() {
    run_with_timeout(async {
        let add = |word: &str| ("bash", json!({"command": format!("echo {word} >> log")}));
        let read = || ("read_file", json!({"path": "log"}));
        let reply = calls(&[add("one"), read(), read(), add("two"), read()]);
        let server = ModelServer::start([reply, done()]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::OpenAi.client(&server)).await;
        assert_eq!(agent.prompt("Go.").await, Outcome::Done);
        let results = agent.results();
        let has_two = |place: usize| results[place].0.contains("two");
        assert_eq!(results.len(), 5);
        assert!(!has_two(1) && !has_two(2) && has_two(4), "{results:?}");
        agent.end().await;
        server.finish();
    });
}

/// Ids of the results in the last message, or messages, of a request.
fn answered_calls(wire: Wire, body: &Value) -> Vec<String> {
    let messages = body["messages"].as_array().unwrap();
    let id = |value: &Value| value.as_str().unwrap().to_owned();
    match wire {
        Wire::Anthropic => {
            let content = messages.last().unwrap()["content"].as_array().unwrap();
            content
                .iter()
                .map(|block| id(&block["tool_use_id"]))
                .collect()
        }
        Wire::OpenAi => {
            let results = messages.iter().filter(|message| message["role"] == "tool");
            results
                .map(|message| id(&message["tool_call_id"]))
                .collect()
        }
    }
}

#[test]
fn results_of_one_reply_are_in_the_order_of_its_calls_however_they_end() {
    run_with_timeout(async {
        for wire in WIRES {
            let both = calls(&[
                ("slow", json!({"name": "s"})),
                ("quick", json!({"name": "q"})),
            ]);
            let server = ModelServer::start([both, done()]);
            let world = SessionFixture::new().await;
            let (slow, mut slow_log, release) = stubs::held_tool("slow", ToolAccess::Reads);
            let (quick, _) = stubs::barrier_tool("quick", ToolAccess::Reads, 1);
            let change =
                |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![slow, quick]);
            let mut agent = world.start_with(wire.client(&server), change).await;
            agent.send(AgentCommand::prompt("Both.")).await;
            assert_eq!(slow_log.next().await, "begin s");
            let quick_ended = |kind: &EventKind| match kind {
                EventKind::ToolEnded { name, .. } => name == "quick",
                _ => false,
            };
            agent.until(quick_ended).await;
            release.notify_one();
            assert_eq!(agent.ended().await, Outcome::Done);
            let asked: Vec<String> = agent
                .kinds()
                .find_map(|kind| match kind {
                    EventKind::Replied { content, .. } => Some(
                        content
                            .iter()
                            .filter_map(|block| match block {
                                protocol::Block::ToolUse { id, .. } => Some(id.to_string()),
                                _ => None,
                            })
                            .collect(),
                    ),
                    _ => None,
                })
                .unwrap();
            assert_eq!(agent.results()[0].0, "did q", "the quick one ended first");
            agent.end().await;
            let requests = server.finish();
            assert_eq!(answered_calls(wire, &requests[1].json()), asked);
        }
    });
}

async fn one_call(agent: &mut TestAgent) -> (String, bool) {
    let before = agent.results().len();
    assert_eq!(agent.prompt("Try.").await, Outcome::Done);
    let results = agent.results();
    assert_eq!(results.len(), before + 1);
    results[before].clone()
}

#[test]
fn new_tools_are_used_from_the_next_turn_on() {
    run_with_timeout(async {
        let (old, mut log, release) = stubs::held_tool("old", ToolAccess::Reads);
        let (new, _) = stubs::picture_tool("new");
        let call_old = || calls(&[("old", json!({"name": "x"}))]);
        let server = ModelServer::start([call_old(), done(), call_old(), done()]);
        let world = SessionFixture::new().await;
        let tools = watch::Sender::new(ToolSet::new(vec![old]));
        let latest = tools.subscribe();
        let client = Wire::Anthropic.client(&server);
        let mut agent = world.start_with(client, |setup| setup.tools = latest).await;
        agent.send(AgentCommand::prompt("Begin.")).await;
        assert_eq!(log.next().await, "begin x");
        tools.send_replace(ToolSet::new(vec![new]));
        release.notify_one();
        assert_eq!(agent.ended().await, Outcome::Done);
        assert_eq!(agent.prompt("Again.").await, Outcome::Done);
        let results = agent.results();
        assert_eq!(results[0], ("did x".to_owned(), false));
        assert_contains(&results[1].0, "there is no tool `old`; there are new");
        let requests = server.requests();
        let offered = requests.iter().map(|request| {
            let tools = &request.json()["tools"];
            tools[0]["name"].as_str().unwrap().to_owned()
        });
        let offered: Vec<String> = offered.collect();
        assert_eq!(offered, ["old", "old", "new", "new"]);
        agent.end().await;
        server.finish();
    });
}

#[test]
fn an_invalid_call_is_explained_to_the_model() {
    run_with_timeout(async {
        for wire in WIRES {
            let raw = |raw: &str| ScriptedReply {
                calls: vec![ScriptedCall {
                    tool: "bash".to_owned(),
                    input: Value::Null,
                    raw: Some(raw.to_owned()),
                }],
                ..ScriptedReply::default()
            };
            let call = |tool: &str, input| ScriptedReply::call(tool, input);
            let wrong = [
                (
                    call("teleport", json!({"to": "Paris"})),
                    "there is no tool `teleport`; there are bash, ",
                ),
                (call("bash", json!({})), "missing field `command`"),
                (
                    call("bash", json!({"comand": "ls"})),
                    "did you mean `command`?",
                ),
                (call("read_file", json!({"path": "nowhere"})), "nowhere"),
                (raw(r#"{"command": "ls"#), "Not run: "),
                (raw(r#"["ls"]"#), "Not run: "),
                (call("bash", json!({"command": "exit 3"})), "exit code: 3"),
            ];
            let script = wrong.iter().flat_map(|(reply, _)| [reply.clone(), done()]);
            let server = ModelServer::start(script.collect::<Vec<_>>());
            let world = SessionFixture::new().await;
            let mut agent = world.start(wire.client(&server)).await;
            for (place, (reply, says)) in wrong.iter().enumerate() {
                let (text, is_error) = one_call(&mut agent).await;
                assert!(is_error, "{reply:?}: {text}");
                assert_contains(&text, says);
                let seen = server.requests()[2 * place + 1].json();
                let seen = seen["messages"].as_array().unwrap().last().unwrap().clone();
                // The part that is not escaped in JSON.
                let beginning = text.split(['"', '\n']).next().unwrap();
                assert_contains(&seen.to_string(), beginning);
            }
            let summaries = agent.kinds().filter_map(|kind| match kind {
                EventKind::ToolEnded { summary, .. } => summary.as_ref().map(|it| it.to_string()),
                _ => None,
            });
            let summaries: Vec<String> = summaries.collect();
            let generic = ["teleport", "bash", "bash"];
            assert_eq!(summaries[..3], generic, "{summaries:?}");
            assert_eq!(summaries[3], "read nowhere");
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn a_shell_keeps_its_state_across_calls_and_turns() {
    run_with_timeout(async {
        let bash = crate::models::bash;
        let server = ModelServer::start([
            bash("mkdir deep && cd deep && export NAME=value"),
            bash("pwd; echo $NAME"),
            done(),
            bash("pwd; echo $NAME"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Go.").await, Outcome::Done);
        assert_eq!(agent.prompt("Still there?").await, Outcome::Done);
        for (text, _) in &agent.results()[1..] {
            assert_contains(text, "/workspace/deep\nvalue\n");
        }
        agent.end().await;
    });
}
