//! What an undo must not touch: files changed by others, and everything outside the workspace.

use std::fs;
use std::os::unix::fs::symlink;

use protocol::{EventKind, Outcome};
use testkit::ModelServer;

use crate::harness::{SessionFixture, is_after_checkpoint, run_with_timeout};
use crate::models::{Wire, bash, done};
use crate::tree::{chmod, tree};
use crate::undo::undo;

#[test]
fn later_changes_of_the_user_are_kept_and_listed() {
    run_with_timeout(async {
        let turn = "echo turn > both; echo turn > mine; echo turn > made; rm gone; \
                    mkdir folder; echo turn > folder/made";
        let server = ModelServer::start([bash(turn), done()]);
        let world = SessionFixture::new().await;
        for name in ["both", "mine", "gone", "untouched", "theirs"] {
            world.write(name, "old\n");
        }
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.until(is_after_checkpoint).await;
        world.write("both", "person\n");
        world.write("theirs", "person\n");
        world.write("gone", "person\n");
        world.write("folder/theirs", "person\n");
        world.write("new", "person\n");
        fs::remove_file(world.path("made")).unwrap();
        let left = undo(&mut agent).await;
        assert_eq!(left, ["both", "gone"]);
        assert_eq!(world.read("both"), "person\n");
        assert_eq!(world.read("mine"), "old\n");
        assert_eq!(world.read("gone"), "person\n");
        assert_eq!(world.read("theirs"), "person\n");
        assert_eq!(world.read("new"), "person\n");
        assert_eq!(world.read("folder/theirs"), "person\n");
        assert!(!world.path("folder/made").exists());
        assert!(!world.path("made").exists());
        assert_eq!(world.read("untouched"), "old\n");
        agent.end().await;
    });
}

/// The end of a killed turn is not recorded; the start of the next turn is used instead.
#[test]
fn files_of_the_user_survive_the_undo_of_a_killed_turn() {
    run_with_timeout(async {
        let server = ModelServer::start([
            bash("echo one > file; touch made"),
            bash("sleep 1000"),
            bash("echo two > file"),
            done(),
        ]);
        let world = SessionFixture::new().await;
        world.write("file", "zero\n");
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        agent.send(protocol::AgentCommand::prompt("Work.")).await;
        let sleeps = |kind: &EventKind| match kind {
            EventKind::ToolStarted { summary, .. } => summary.subject == "sleep 1000",
            _ => false,
        };
        agent.until(sleeps).await;
        agent.kill().await;

        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("More.").await, Outcome::Done);
        assert!(undo(&mut agent).await.is_empty());
        assert_eq!(world.read("file"), "one\n");
        world.write("mine", "person\n");
        assert!(undo(&mut agent).await.is_empty());
        assert_eq!(world.read("file"), "zero\n");
        assert!(!world.path("made").exists());
        assert_eq!(world.read("mine"), "person\n");
        agent.end().await;
    });
}

/// Links in the workspace may lead outside, and folders may be replaced by links.
#[test]
fn nothing_outside_the_workspace_is_touched() {
    run_with_timeout(async {
        let turn = "rm folder/gone; echo turn > folder/changed; echo turn > folder/made; \
                    rm aside/gone; echo x > out/x || true";
        let server = ModelServer::start([bash(turn), done(), done()]);
        let world = SessionFixture::new().await;
        for name in ["folder/gone", "folder/changed", "aside/gone", "other/keep"] {
            world.write(name, "old\n");
        }
        let outside = world.outside("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("changed"), "host\n").unwrap();
        fs::write(outside.join("made"), "host\n").unwrap();
        symlink(&outside, world.path("out")).unwrap();
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        agent.until(is_after_checkpoint).await;
        fs::remove_dir_all(world.path("folder")).unwrap();
        symlink(&outside, world.path("folder")).unwrap();
        fs::remove_dir_all(world.path("aside")).unwrap();
        symlink("other", world.path("aside")).unwrap();
        let before = tree(&outside);
        let left = undo(&mut agent).await;
        assert_eq!(tree(&outside), before);
        assert!(
            !world.path("other/gone").exists(),
            "not through a link inside either"
        );
        let expect = ["aside/gone", "folder/changed", "folder/gone"];
        for path in expect {
            assert!(left.contains(&path.to_owned()), "{path}: {left:?}");
        }
        assert_eq!(fs::read_link(world.path("folder")).unwrap(), outside);
        assert_eq!(agent.prompt("Go on.").await, Outcome::Done);
        agent.end().await;
    });
}

/// A file that could not be seen before the turn may have existed, so it is not removed.
#[test]
fn files_in_a_locked_folder_are_listed_and_never_removed() {
    run_with_timeout(async {
        let server = ModelServer::start([bash("chmod 700 secret"), done()]);
        let world = SessionFixture::new().await;
        world.write("secret/inside", "precious\n");
        chmod(&world.path("secret"), 0o000);
        let mut agent = world.start(Wire::Anthropic.client(&server)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        let skipped = agent.kinds().find_map(|kind| match kind {
            EventKind::CheckpointMade { checkpoint, .. } => Some(checkpoint.skipped.clone()),
            _ => None,
        });
        let skipped = skipped.unwrap();
        assert_eq!(skipped.keys().collect::<Vec<_>>(), ["secret"]);
        assert!(undo(&mut agent).await.is_empty());
        agent.end().await;
        chmod(&world.path("secret"), 0o700);
        assert_eq!(world.read("secret/inside"), "precious\n");
    });
}
