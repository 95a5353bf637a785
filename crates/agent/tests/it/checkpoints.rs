//! When a checkpoint is made, and what it contains.

use llm::script::ScriptedReply;
use protocol::{AgentCommand, EventKind, Moment, Outcome};
use serde_json::json;
use testkit::ModelServer;

use crate::harness::{SessionFixture, TestAgent, run_with_timeout};
use crate::models::{Wire, bash, done};

fn made_checkpoints(agent: &TestAgent) -> Vec<(u32, Moment, u32)> {
    agent
        .kinds()
        .filter_map(|kind| match kind {
            EventKind::CheckpointMade {
                turn,
                moment,
                checkpoint,
            } => Some((*turn, *moment, checkpoint.number)),
            _ => None,
        })
        .collect()
}

#[test]
fn a_checkpoint_is_made_before_the_first_and_after_the_last_change() {
    run_with_timeout(async {
        let server = ModelServer::start([
            ScriptedReply::call("list_files", json!({})),
            bash("echo one > file"),
            bash("echo two > file"),
            done(),
            bash("echo three > file"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.prompt("Work.").await;
        agent.prompt("More.").await;
        let after = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::CheckpointMade {
                    turn: 2,
                    moment: Moment::After,
                    ..
                }
            )
        };
        agent.until(after).await;
        let expect = [
            (1, Moment::Before, 1),
            (1, Moment::After, 2),
            (2, Moment::Before, 3),
            (2, Moment::After, 4),
        ];
        assert_eq!(made_checkpoints(&agent), expect);
        // Order: the reply that wants the change, the checkpoint, the change.
        let kinds: Vec<&EventKind> = agent.kinds().collect();
        let place = |is_it: fn(&EventKind) -> bool| kinds.iter().position(|kind| is_it(kind));
        let checkpoint = place(|kind| matches!(kind, EventKind::CheckpointMade { .. }));
        let change =
            place(|kind| matches!(kind, EventKind::ToolStarted { name, .. } if name == "bash"));
        assert!(checkpoint < change, "{checkpoint:?} {change:?}");
        agent.end().await;
    });
}

#[test]
fn a_read_only_turn_makes_no_checkpoint() {
    run_with_timeout(async {
        let server = ModelServer::start([
            ScriptedReply::call("list_files", json!({})),
            ScriptedReply::call("read_file", json!({"path": "file"})),
            ScriptedReply::call("search_files", json!({"pattern": "x"})),
            ScriptedReply::call("no_such_tool", json!({})),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("file", "x");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Look.").await, Outcome::Done);
        assert!(made_checkpoints(&agent).is_empty());
        let events = agent.end().await;
        let is_checkpoint = |kind: &EventKind| matches!(kind, EventKind::CheckpointMade { .. });
        assert!(!events.iter().any(|event| is_checkpoint(&event.kind)));
    });
}

#[test]
fn a_file_that_is_too_large_is_listed_and_kept() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo new > small; truncate -s 17M made; truncate -s 1M large"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("small", "old");
        let large = std::fs::File::create(world.path("large")).unwrap();
        large.set_len(17 << 20).unwrap();
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        let checkpoint = agent.kinds().find_map(|kind| match kind {
            EventKind::CheckpointMade { checkpoint, .. } => Some(checkpoint.clone()),
            _ => None,
        });
        let checkpoint = checkpoint.unwrap();
        assert_eq!(checkpoint.files, 1);
        let skipped: Vec<_> = checkpoint.skipped.keys().collect();
        assert_eq!(skipped, ["large"]);
        let EventKind::Undone { left, .. } = agent.undo().await else {
            panic!("it can be undone");
        };
        assert_eq!(world.read("small"), "old");
        assert_eq!(
            std::fs::metadata(world.path("large")).unwrap().len(),
            1 << 20
        );
        // The file that the turn created is too large to be recorded, so later changes cannot be excluded.
        assert_eq!(left, ["made"]);
        assert!(world.path("made").exists());
        agent.end().await;
    });
}

#[test]
fn undoing_a_continued_turn_restores_its_original_start() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo one > file"),
            ScriptedReply::error(400, "invalid_request_error", "no"),
            bash("echo two > other"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("file", "zero\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let outcome = agent.prompt("Work.").await;
        assert!(matches!(outcome, Outcome::Provider { .. }));
        agent.send(AgentCommand::Continue).await;
        assert_eq!(agent.ended().await, Outcome::Done);
        assert!(matches!(agent.undo().await, EventKind::Undone { .. }));
        assert_eq!(world.read("file"), "zero\n");
        assert!(!world.path("other").exists());
        agent.end().await;
    });
}
