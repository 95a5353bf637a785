//! Queries about the workspace: its files, and what the session has changed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;

use llm::script::ScriptedReply;
use protocol::{AgentCommand, Change, EventKind, Outcome};
use serde_json::json;
use tools::{ToolAccess, ToolSet};

use crate::harness::{SessionFixture, TestAgent, assert_contains, fixed_tools, run_with_timeout};
use crate::models::{bash, calls, done, scripted};
use crate::stubs;
use crate::tree::chmod;

async fn files(agent: &mut TestAgent) -> (Vec<String>, bool) {
    agent.send(AgentCommand::ListFiles).await;
    let sent = |kind: &EventKind| matches!(kind, EventKind::Files { .. });
    match agent.until(sent).await {
        EventKind::Files { paths, is_cut } => (paths, is_cut),
        _ => unreachable!(),
    }
}

/// The changes shown, by path, and the number of those left out.
async fn differences(agent: &mut TestAgent) -> (BTreeMap<String, Option<String>>, u64) {
    agent.send(AgentCommand::Diff).await;
    let sent = |kind: &EventKind| matches!(kind, EventKind::Differs { .. });
    match agent.until(sent).await {
        EventKind::Differs { changes, left_out } => {
            let paths: Vec<&String> = changes.iter().map(|change| &change.path).collect();
            assert!(paths.is_sorted(), "{paths:?}");
            let by_path = |Change { path, diff }| (path, diff);
            (changes.into_iter().map(by_path).collect(), left_out)
        }
        _ => unreachable!(),
    }
}

#[test]
fn listing_files_leaves_out_ignored_ones_and_stores_nothing() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("src/main.rs", "x");
        world.write("src/deep/er/file", "x");
        world.write(".hidden", "x");
        world.write(".gitignore", "target/\n*.log\n");
        world.write(".git/HEAD", "x");
        world.write("target/debug/out", "x");
        world.write("some.log", "x");
        fs::create_dir(world.path("empty")).unwrap();
        symlink("src", world.path("link")).unwrap();
        nix::unistd::mkfifo(&world.path("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let mut agent = world.start(scripted(vec![done()])).await;
        // Asked before the sandbox has started.
        let (paths, is_cut) = files(&mut agent).await;
        let expect = [
            ".gitignore",
            ".hidden",
            "link",
            "src/deep/er/file",
            "src/main.rs",
        ];
        assert_eq!(paths, expect);
        assert!(!is_cut);
        assert_eq!(differences(&mut agent).await, (BTreeMap::new(), 0));
        agent.end().await;
        assert!(world.store.summary(&world.session).await.is_err());
    });
}

#[test]
fn queries_are_answered_before_the_session_ends() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("file", "x");
        let agent = world.start(scripted(vec![done()])).await;
        agent.send(AgentCommand::ListFiles).await;
        let events = agent.end().await;
        let answered = |kind: &EventKind| matches!(kind, EventKind::Files { .. });
        assert!(events.iter().any(|event| answered(&event.kind)));
    });
}

#[test]
fn queries_and_turns_do_not_block_each_other() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let (wait, mut log, go) = stubs::held_tool("wait", ToolAccess::Changes);
        let standard = ToolSet::standard();
        let bash_tool = standard.find("bash").unwrap().clone();
        let change =
            |setup: &mut agent::SessionSetup| setup.tools = fixed_tools(vec![bash_tool, wait]);
        let replies = vec![
            calls(&[
                ("bash", json!({"command": "echo new > file; echo x > made"})),
                ("wait", json!({"name": "it"})),
            ]),
            done(),
        ];
        let mut agent = world.start_with(scripted(replies), change).await;
        agent.send(AgentCommand::prompt("Work.")).await;
        assert_eq!(log.next().await, "begin it");
        assert_eq!(files(&mut agent).await.0, ["file", "made"]);
        let (changes, left_out) = differences(&mut agent).await;
        assert_eq!(left_out, 0);
        assert_contains(changes["file"].as_ref().unwrap(), "-old\n+new\n");
        assert_contains(changes["made"].as_ref().unwrap(), "+x\n");
        let ended = |kind: &EventKind| matches!(kind, EventKind::TurnEnded { .. });
        assert!(!agent.kinds().any(ended), "the turn was waited for");
        go.notify_one();
        assert_eq!(agent.ended().await, Outcome::Done);
        agent.end().await;
    });
}

#[test]
fn every_change_is_shown_or_counted() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        for name in ["same", "edited", "removed", "mode", "touched", "to-link"] {
            world.write(name, &format!("first of {name}\nsecond\n"));
        }
        fs::write(world.path("binary"), b"\x00\x01\x02").unwrap();
        fs::write(world.path("binary-too"), b"\x00\x01\x02").unwrap();
        world.write("large", &"line\n".repeat(300_000));
        world.write("folder/inside", "x\n");
        world.write(".gitignore", "target/\n");
        world.write(".git/index", "1");
        symlink("same", world.path("link")).unwrap();
        let turn = "
            sed -i s/second/changed/ edited; rm removed; chmod 700 mode; touch touched
            rm to-link; ln -s same to-link; printf '\\000\\001\\003' > binary; echo more >> large
            rm link; ln -s edited link; rm -r folder; echo now a file > folder
            mkdir -p target new/deep; echo x > target/a; echo x > target/b
            echo new > new/deep/file; echo 2 > .git/index; rm -f .git/none";
        let mut agent = world
            .start(scripted(vec![bash(turn), done(), bash("true"), done()]))
            .await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        let (result, is_error) = agent.results().pop().unwrap();
        assert!(!is_error, "{result}");
        // Changes made outside of turns count too, also after a resume.
        world.write("person", "hello\n");
        agent.until(crate::harness::is_after_checkpoint).await;
        for is_resumed in [false, true] {
            if is_resumed {
                agent.end().await;
                agent = world.start(scripted(vec![done()])).await;
            }
            let (changes, left_out) = differences(&mut agent).await;
            let names: Vec<&str> = changes.keys().map(String::as_str).collect();
            let expect = [
                "binary",
                "edited",
                "folder",
                "folder/inside",
                "large",
                "link",
                "mode",
                "new/deep/file",
                "person",
                "removed",
                "to-link",
            ];
            assert_eq!(names, expect, "{is_resumed}");
            assert_eq!(left_out, 3, "target/a, target/b and .git/index");
            for name in ["binary", "large", "link", "mode", "to-link"] {
                assert_eq!(changes[name], None, "{name}");
            }
            for (name, expect) in [
                ("edited", "-second\n+changed\n"),
                ("removed", "-first of removed\n-second\n"),
                ("folder", "+now a file\n"),
                ("folder/inside", "-x\n"),
                ("new/deep/file", "+new\n"),
                ("person", "+hello\n"),
            ] {
                assert_contains(changes[name].as_ref().unwrap(), expect);
            }
        }
        agent.end().await;
    });
}

#[test]
fn undone_changes_are_not_shown() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        let replies = vec![
            bash("echo one > file"),
            done(),
            bash("echo x > new"),
            done(),
        ];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        assert_eq!(differences(&mut agent).await.0.len(), 1);
        agent.undo().await;
        assert_eq!(differences(&mut agent).await, (BTreeMap::new(), 0));
        // The first checkpoint is that of the undone turn.
        world.write("file", "person\n");
        assert_eq!(agent.prompt("Again.").await, Outcome::Done);
        let (changes, _) = differences(&mut agent).await;
        assert_contains(changes["file"].as_ref().unwrap(), "-old\n+person\n");
        assert_eq!(changes.len(), 2);
        agent.end().await;
    });
}

#[test]
fn the_shown_changes_are_bounded() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        let replies = vec![
            bash("for i in $(seq 1 250); do echo $i > file$i; done"),
            done(),
            bash("rm file*; for i in $(seq 100 190); do seq -f \"$i %.0f\" 1 3000 > long$i; done"),
            done(),
        ];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Many.").await, Outcome::Done);
        let (changes, left_out) = differences(&mut agent).await;
        assert_eq!((changes.len(), left_out), (200, 50));
        assert_eq!(agent.prompt("Long.").await, Outcome::Done);
        let (changes, left_out) = differences(&mut agent).await;
        assert_eq!(changes.len() as u64 + left_out, 91);
        let text: usize = changes.values().flatten().map(String::len).sum();
        assert!(text <= 1 << 20, "{text}");
        assert!(changes.len() > 20 && left_out > 20, "{left_out}");
        agent.end().await;
    });
}

#[test]
fn an_unreadable_file_loses_only_its_own_diff() {
    run_with_timeout(async {
        let world = SessionFixture::new().await;
        world.write("file", "old\n");
        world.write("other", "old\n");
        let write = |name: &str| {
            ScriptedReply::call("write_file", json!({"path": name, "content": "new\n"}))
        };
        let replies = vec![
            write("file"),
            write("other"),
            bash("chmod 000 file"),
            done(),
        ];
        let mut agent = world.start(scripted(replies)).await;
        assert_eq!(agent.prompt("Work.").await, Outcome::Done);
        let (changes, _) = differences(&mut agent).await;
        assert_eq!(changes["file"], None);
        assert_contains(changes["other"].as_ref().unwrap(), "-old\n+new\n");
        agent.end().await;
        chmod(&world.path("file"), 0o600);
    });
}
