//! Undo: a turn's files and messages, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;

use protocol::{EventKind, Outcome};
use testkit::ModelServer;

use crate::harness::{
    SessionFixture, TestAgent, assert_contains, is_after_checkpoint, run_with_timeout,
};
use crate::models::{Wire, bash, done};
use crate::tree::{chmod, tree};

/// The paths that an undo left. It must not be refused.
pub(crate) async fn undo(agent: &mut TestAgent) -> Vec<String> {
    match agent.undo().await {
        EventKind::Undone { left, .. } => left,
        other => panic!("{other:?}"),
    }
}

/// A workspace with an entry of each kind.
async fn populated_workspace() -> SessionFixture {
    let world = SessionFixture::new().await;
    world.write("file", "first\n");
    world.write("script", "#!/bin/sh\n");
    chmod(&world.path("script"), 0o755);
    world.write("folder/inside", "inside\n");
    world.write("folder/deep/deeper", "deeper\n");
    world.write("locked/inside", "locked in\n");
    chmod(&world.path("locked"), 0o500);
    fs::create_dir(world.path("empty")).unwrap();
    chmod(&world.path("empty"), 0o750);
    symlink("file", world.path("link")).unwrap();
    symlink("nowhere", world.path("dangling")).unwrap();
    symlink("folder", world.path("shortcut")).unwrap();
    world
}

#[test]
fn an_undo_reverts_every_kind_of_change() {
    run_with_timeout(async {
        let world = populated_workspace().await;
        let before = tree(&world.workspace());
        let changes = [
            "echo more >> file",
            "rm file",
            "chmod 600 script",
            "chmod 711 folder; chmod 700 empty",
            "rm -r folder",
            "rmdir empty",
            "rm link dangling; ln -s script link",
            "rm link; cp file link",
            "echo through > link",
            "rm file; ln -s script file",
            "rm -r folder; echo now a file > folder",
            "rm -r folder; ln -s empty folder",
            "rm file; mkdir file; echo x > file/x",
            "rm link; mkdir -p link/a/b; touch link/a/b/c",
            "rm shortcut; mkdir shortcut; touch shortcut/x",
            "mkdir -p new/a/b; touch new/a/b/c; chmod 500 new/a/b",
            "mkdir new; touch new/x; chmod 000 new",
            "chmod 000 folder",
            "echo more >> folder/inside; rm -r folder/deep; chmod 000 folder",
            "mv folder moved; mv file folder",
            "chmod 700 locked; rm locked/inside",
            "chmod 700 locked; echo x > locked/inside; chmod 500 locked",
            "touch -- $'odd\\nname' $'not \\xff text' '-rf' ' '",
            "ln file hard; echo both >> hard",
            "mkfifo pipe; ln -s pipe to-pipe",
            "find . -mindepth 1 -maxdepth 1 ! -name locked -exec rm -r {} +",
        ];
        let script = changes.iter().flat_map(|change| [bash(change), done()]);
        let server = ModelServer::start(script.collect::<Vec<_>>());
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        for change in changes {
            assert_eq!(agent.prompt(change).await, Outcome::Done);
            let (result, is_error) = agent.results().pop().unwrap();
            assert!(!is_error, "{change}: {result}");
            let left = undo(&mut agent).await;
            if change.starts_with("mkfifo") {
                // Neither file, folder nor link: not recorded, so not removed either.
                assert_eq!(left, ["pipe"], "{change}");
                fs::remove_file(world.path("pipe")).unwrap();
            } else if change.ends_with("chmod 000 new") {
                // What the turn left inside could not be listed.
                assert_eq!(left, ["new/x"], "{change}");
                fs::remove_dir_all(world.path("new")).unwrap();
            } else {
                assert!(left.is_empty(), "{change}: {left:?}");
            }
            assert_eq!(tree(&world.workspace()), before, "{change}");
        }
        agent.end().await;
        let requests = server.finish();
        let last = requests[requests.len() - 2].json();
        let messages = last["messages"].as_array().unwrap();
        assert_eq!(
            messages.len(),
            1,
            "the messages are undone too: {messages:?}"
        );
        chmod(&world.path("locked"), 0o700);
    });
}

#[test]
fn turns_are_undone_one_by_one_also_after_a_resume() {
    run_with_timeout(async {
        for is_resumed in [false, true] {
            let world = SessionFixture::new().await;
            world.write("file", "zero\n");
            let mut trees = vec![tree(&world.workspace())];
            let turns = [
                "echo one > file; mkdir folder; echo x > folder/x",
                "echo two > file; rm -r folder; echo now a file > folder",
                "true",
                "echo three >> file; rm folder; mkdir folder",
            ];
            let script = turns.iter().flat_map(|turn| [bash(turn), done()]);
            let server = ModelServer::start(script.collect::<Vec<_>>());
            let mut agent = world.start(Wire::OpenAi.client(&server)).await;
            for turn in turns {
                assert_eq!(agent.prompt(turn).await, Outcome::Done);
                trees.push(tree(&world.workspace()));
            }
            for turn in (0..turns.len()).rev() {
                if is_resumed {
                    agent.end().await;
                    agent = world.start(Wire::OpenAi.client(&server)).await;
                }
                let left = undo(&mut agent).await;
                assert!(left.is_empty(), "{turn}: {left:?}");
                assert_eq!(tree(&world.workspace()), trees[turn], "{turn}");
            }
            let refused = agent.undo().await;
            assert!(matches!(refused, EventKind::CommandRefused { .. }));
            agent.end().await;
            server.finish();
        }
    });
}

#[test]
fn an_undo_without_its_checkpoint_is_refused_and_changes_nothing() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo new > file"), done(), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.until(is_after_checkpoint).await;
        // Another session's checkpoint, which only fits if all others are removed.
        let other = crate::harness::new_session();
        world
            .store
            .save_checkpoint(&other, 1, &[], 0)
            .await
            .unwrap();
        let before = tree(&world.workspace());
        match agent.undo().await {
            EventKind::CommandRefused { reason } => assert_contains(&reason, "is gone"),
            other => panic!("{other:?}"),
        }
        assert_eq!(tree(&world.workspace()), before);
        assert_eq!(agent.prompt("Go on.").await, Outcome::Done);
        let count = server.requests().last().unwrap().json()["messages"]
            .as_array()
            .unwrap()
            .len();
        assert_eq!(count, 5, "the messages are still there");
        agent.end().await;
        server.finish();
    });
}

#[test]
fn an_undo_during_a_turn_waits_for_its_end() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("echo new > file"), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(protocol::AgentCommand::prompt("Work.")).await;
        assert!(undo(&mut agent).await.is_empty());
        assert_eq!(world.read("file"), "old\n");
        let events = agent.end().await;
        let ended = |kind: &EventKind| {
            matches!(
                kind,
                EventKind::TurnEnded {
                    outcome: Outcome::Done,
                    ..
                }
            )
        };
        assert!(events.iter().any(|event| ended(&event.kind)));
    });
}

#[test]
fn undoing_a_turn_without_changes_removes_only_its_messages() {
    run_with_timeout(async {
        let server = ModelServer::start([done(), done(), done()]);
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("First words.").await, Outcome::Done);
        assert_eq!(agent.prompt("Second words.").await, Outcome::Done);
        world.write("file", "person\n");
        assert!(undo(&mut agent).await.is_empty());
        assert_eq!(world.read("file"), "person\n");
        assert_eq!(agent.prompt("Third words.").await, Outcome::Done);
        agent.end().await;
        let body = String::from_utf8(server.finish()[2].body.to_vec()).unwrap();
        assert!(body.contains("First words.") && !body.contains("Second words."));
    });
}
