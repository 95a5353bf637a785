//! Replay: the recorded calls run again in another folder, and differences are reported.

use agent::ReplayedCall;
use llm::script::ScriptedReply;
use protocol::Outcome;
use sandbox::SandboxSpec;
use serde_json::json;
use testkit::ModelServer;
use tokio::sync::watch;
use tools::ToolSet;

use crate::harness::{SessionFixture, run_with_timeout};
use crate::models::{Wire, bash, calls, done};
use crate::stubs;
use crate::tree::tree;

async fn replay(world: &SessionFixture, tools: &ToolSet) -> Vec<ReplayedCall> {
    let events = world.events().await;
    let folder = tempfile::tempdir().unwrap();
    let spec = SandboxSpec::new(folder.path());
    let mut received = Vec::new();
    let report = |replayed| received.push(replayed);
    agent::replay(&world.store, &world.session, &events, tools, spec, report)
        .await
        .unwrap();
    received
}

fn differing(replayed: &[ReplayedCall]) -> Vec<&str> {
    let differs = |one: &&ReplayedCall| one.difference.is_some();
    let differing = replayed.iter().filter(differs);
    differing.map(|one| one.summary.as_str()).collect()
}

#[test]
fn identical_results_are_reported_as_identical() {
    run_with_timeout(async {
        let server = ModelServer::start([
            calls(&[
                ("list_files", json!({})),
                ("read_file", json!({"path": "file"})),
                (
                    "bash",
                    json!({"command": "cat file; echo two >> file; cd folder"}),
                ),
                ("bash", json!({"command": "pwd; exit 3"})),
            ]),
            ScriptedReply::call("write_file", json!({"path": "new", "content": "x"})),
            ScriptedReply::call(
                "edit_file",
                json!({"path": "file", "edits": [{"old": "two", "new": "three"}]}),
            ),
            bash("seq 1 50000"),
            ScriptedReply::call(
                "read_file",
                json!({"path": "output:1", "offset": 30000, "limit": 2}),
            ),
            bash("seq 1 60000"),
            ScriptedReply::call("no_such_tool", json!({})),
            done(),
            bash("cat /workspace/file"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("file", "one\n");
        world.write("folder/inside", "x");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        agent.end().await;
        let (before, events) = (tree(&world.workspace()), world.events().await);
        let tools = ToolSet::standard();
        // Twice: a replay leaves nothing behind that the next one would see.
        for _ in 0..2 {
            let replayed = replay(&world, &tools).await;
            assert_eq!(replayed.len(), 11);
            assert_eq!(differing(&replayed), [""; 0], "{replayed:#?}");
            assert_eq!((replayed[0].turn, replayed[10].turn), (1, 2));
        }
        assert_eq!(
            tree(&world.workspace()),
            before,
            "the workspace is not touched"
        );
        assert_eq!(world.events().await, events, "nor is the session");
        let kept = world
            .store
            .output(&world.session, "output:3")
            .await
            .unwrap();
        assert_eq!(kept, None, "nor are the outputs that it keeps");
    });
}

#[test]
fn results_that_depend_on_time_or_chance_differ() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo same"),
            bash("date +%s%N"),
            bash("head -c 16 /dev/urandom | od -An -tx1 | tee random"),
            bash("echo the same again"),
            bash("cat random"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::OpenAi.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.end().await;
        let replayed = replay(&world, &ToolSet::standard()).await;
        let expect = [
            "$ date +%s%N",
            "$ head -c 16 /dev/urandom | od -An -tx1 | tee random",
            "$ cat random",
        ];
        assert_eq!(differing(&replayed), expect);
        let difference = replayed[1].difference.as_ref().unwrap();
        assert!(difference.recorded.ends_with("exit code: 0"));
        assert_ne!(difference.recorded, difference.replayed);
    });
}

#[test]
fn undone_turns_are_undone_in_a_replay() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo one > file; cd folder"),
            done(),
            bash("echo two > file; rm -r inner; export NAME=kept"),
            done(),
            bash("cat ../file; pwd; ls -R; echo $NAME"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("folder/inner/file", "x");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        let undone = agent.undo().await;
        assert!(matches!(undone, protocol::EventKind::Undone { .. }));
        assert_eq!(agent.prompt("Look.").await, Outcome::Done);
        agent.end().await;
        let replayed = replay(&world, &ToolSet::standard()).await;
        assert_eq!(replayed.len(), 3);
        assert_eq!(differing(&replayed), [""; 0], "{replayed:#?}");
    });
}

#[test]
fn redone_undos_are_redone_in_a_replay() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo one > file"),
            done(),
            bash("echo two > file; mkdir folder"),
            done(),
            bash("cat file; ls"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        agent.undo().await;
        agent.undo().await;
        agent.redo().await;
        let redone = agent.redo().await;
        assert!(matches!(redone, protocol::EventKind::Redone { .. }));
        assert_eq!(agent.prompt("Look.").await, Outcome::Done);
        agent.end().await;
        let replayed = replay(&world, &ToolSet::standard()).await;
        assert_eq!(replayed.len(), 3);
        assert_eq!(differing(&replayed), [""; 0], "{replayed:#?}");
    });
}

#[test]
fn images_are_compared() {
    run_with_timeout(async {
        let server =
            ModelServer::start([ScriptedReply::call("look", json!({"name": "it"})), done()]);
        let world = SessionFixture::new().await;
        let (look, _log) = stubs::picture_tool("look");
        let tools = ToolSet::new(vec![look]);
        let change = |setup: &mut agent::SessionSetup| {
            setup.tools = watch::Sender::new(tools.clone()).subscribe();
        };
        let mut agent = world
            .start_with(Wire::Anthropic.client(&server), change)
            .await;
        assert_eq!(agent.prompt("Look.").await, Outcome::Done);
        agent.end().await;
        server.finish();
        let replayed = replay(&world, &tools).await;
        assert_eq!(replayed.len(), 1);
        assert_eq!(replayed[0].difference, None);
    });
}

#[test]
fn unfinished_calls_are_not_replayed() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo begun; sleep 1000")]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(protocol::AgentCommand::prompt("Work.")).await;
        let started =
            |kind: &protocol::EventKind| matches!(kind, protocol::EventKind::ToolStarted { .. });
        agent.until(started).await;
        agent.kill().await;
        assert!(replay(&world, &ToolSet::standard()).await.is_empty());
    });
}
