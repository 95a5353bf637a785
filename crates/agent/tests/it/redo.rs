//! Redo: the files as the turn left them, and its messages.

use std::fs;
use std::os::unix::fs::symlink;

use protocol::{AgentCommand, EventKind, Outcome};
use testkit::ModelServer;

use crate::harness::{SessionFixture, TestAgent, assert_contains, run_with_timeout};
use crate::models::{Wire, bash, done};
use crate::tree::{chmod, tree};
use crate::undo::undo;

/// The paths that a redo left. It must not be refused.
async fn redo(agent: &mut TestAgent) -> Vec<String> {
    match agent.redo().await {
        EventKind::Redone { left, .. } => left,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_redo_restores_every_kind_of_change() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("file", "first\n");
        world.write("script", "#!/bin/sh\n");
        world.write("folder/inside", "inside\n");
        fs::create_dir(world.path("empty")).unwrap();
        symlink("file", world.path("link")).unwrap();
        let before = tree(&world.workspace());
        let changes = [
            "echo more >> file",
            "rm file",
            "chmod 755 script",
            "chmod 711 folder; chmod 700 empty",
            "rm -r folder",
            "rmdir empty",
            "rm link; ln -s script link",
            "rm link; cp file link",
            "rm -r folder; echo now a file > folder",
            "rm -r folder; ln -s empty folder",
            "rm file; mkdir file; echo x > file/x",
            "mkdir -p new/a/b; touch new/a/b/c; chmod 500 new/a/b",
            "mv folder moved; mv file folder",
            "touch -- $'odd\\nname' $'not \\xff text' '-rf' ' '",
            "find . -mindepth 1 -maxdepth 1 -exec rm -r {} +",
            "true",
        ];
        let script = changes.iter().flat_map(|change| [bash(change), done()]);
        let server = ModelServer::start(script.collect::<Vec<_>>());
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        for change in changes {
            assert_eq!(agent.prompt(change).await, Outcome::Done);
            let (result, is_error) = agent.results().pop().unwrap();
            assert!(!is_error, "{change}: {result}");
            let after = tree(&world.workspace());
            // Twice: what was redone can be undone again.
            for _ in 0..2 {
                assert!(undo(&mut agent).await.is_empty(), "{change}");
                assert_eq!(tree(&world.workspace()), before, "{change}");
                let left = redo(&mut agent).await;
                assert!(left.is_empty(), "{change}: {left:?}");
                assert_eq!(tree(&world.workspace()), after, "{change}");
            }
            assert!(undo(&mut agent).await.is_empty(), "{change}");
        }
        agent.end().await;
        server.finish();
    });
}

#[test]
fn undos_are_redone_one_by_one_also_after_a_resume_and_in_a_fork() {
    run_with_timeout(async {
        #[derive(Debug, Clone, Copy, PartialEq)]
        enum Between {
            Nothing,
            Resume,
            Fork,
        }
        for between in [Between::Nothing, Between::Resume, Between::Fork] {
            let mut world = SessionFixture::new().await;
            world.write("file", "zero\n");
            let turns = [
                "echo one > file; mkdir folder",
                "echo two > file; rmdir folder; echo now a file > folder",
                "true",
                "echo three >> file",
            ];
            let script = turns.iter().flat_map(|turn| [bash(turn), done()]);
            let script = script.chain([done()]);
            let server = ModelServer::start(script.collect::<Vec<_>>());
            let mut agent = world.start(Wire::OpenAi.client(&server)).await;
            let mut trees = Vec::new();
            for turn in turns {
                assert_eq!(agent.prompt(turn).await, Outcome::Done);
                trees.push(tree(&world.workspace()));
            }
            for _ in turns {
                assert!(undo(&mut agent).await.is_empty());
            }
            for (number, after) in trees.iter().enumerate() {
                if between != Between::Nothing {
                    agent.end().await;
                    if between == Between::Fork {
                        world.fork(u64::MAX).await;
                    }
                    agent = world.start(Wire::OpenAi.client(&server)).await;
                }
                let left = redo(&mut agent).await;
                assert!(left.is_empty(), "{between:?} {number}: {left:?}");
                assert_eq!(tree(&world.workspace()), *after, "{between:?} {number}");
            }
            let reason = agent.refused(AgentCommand::Redo).await;
            assert_contains(&reason, "there is nothing to redo");
            assert_eq!(agent.prompt("What was said?").await, Outcome::Done);
            agent.end().await;
            let last = server.finish().pop().unwrap();
            let body = String::from_utf8(last.body.to_vec()).unwrap();
            for turn in turns {
                assert_contains(&body, &turn.replace('"', "\\\""));
            }
        }
    });
}

#[test]
fn later_changes_by_others_are_kept() {
    run_with_timeout(async {
        let change = "echo turn > mine; echo turn > theirs; echo turn > new; rm gone; mkdir made";
        let server = ModelServer::start([bash(change), done()]);
        let world = SessionFixture::new().await;
        for name in ["mine", "theirs", "gone", "other"] {
            world.write(name, "before\n");
        }
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert!(undo(&mut agent).await.is_empty());
        world.write("theirs", "person\n");
        world.write("new", "person\n");
        world.write("gone", "person\n");
        world.write("other", "person\n");
        assert_eq!(redo(&mut agent).await, ["gone", "new", "theirs"]);
        assert_eq!(world.read("mine"), "turn\n");
        for name in ["theirs", "new", "gone", "other"] {
            assert_eq!(world.read(name), "person\n", "{name}");
        }
        assert!(world.path("made").is_dir());
        agent.end().await;
        server.finish();
    });
}

/// A path that the undo could not restore is not touched by the redo.
#[test]
fn files_skipped_by_an_undo_are_skipped_by_its_redo() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo turn > file; echo turn > both"), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "before\n");
        world.write("both", "before\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.until(crate::harness::is_after_checkpoint).await;
        world.write("both", "person\n");
        assert_eq!(undo(&mut agent).await, ["both"]);
        assert_eq!(world.read("file"), "before\n");
        assert_eq!(redo(&mut agent).await, [""; 0]);
        assert_eq!(world.read("file"), "turn\n");
        assert_eq!(world.read("both"), "person\n");
        agent.end().await;
        server.finish();
    });
}

#[test]
fn a_new_turn_discards_redos() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo turn > file"), done(), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "before\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        let refusal = "there is nothing to redo";
        assert_contains(&agent.refused(AgentCommand::Redo).await, refusal);
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_contains(&agent.refused(AgentCommand::Redo).await, refusal);
        assert!(undo(&mut agent).await.is_empty());
        assert_eq!(agent.prompt("Another way.").await, Outcome::Done);
        assert_contains(&agent.refused(AgentCommand::Redo).await, refusal);
        assert_eq!(world.read("file"), "before\n");
        agent.end().await;
        chmod(&world.path("file"), 0o600);
        let summary = world.store.summary(&world.session).await.unwrap();
        assert_eq!(summary.title, "Another way.");
        server.finish();
    });
}
