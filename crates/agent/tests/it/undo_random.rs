//! Random turns: an undo restores exactly the files before the turn, and a redo exactly those after it.

use llm::script::{Script, ScriptedReply};
use llm::{Model, ScriptedModel};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};
use protocol::{EventKind, Outcome};
use std::sync::Arc;

use crate::harness::{SessionFixture, run_with_timeout};
use crate::models::{bash, done};
use crate::tree::tree;

const RANDOM_TURNS: usize = 60;

/// Names that collide: as files, folders and links of one another.
fn any_path() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec!["a", "b", "c"]);
    prop::collection::vec(name, 1..4).prop_map(|names| names.join("/"))
}

/// A command that may fail.
fn any_command() -> impl Strategy<Value = String> {
    // No modes that make a folder unreadable: its content is not recorded.
    let mode = prop::sample::select(vec!["500", "555", "700", "755", "750"]);
    prop_oneof![
        3 => (any_path(), 0u8..9).prop_map(|(path, number)| format!("echo {number} > {path}")),
        2 => any_path().prop_map(|path| format!("echo more >> {path}")),
        3 => any_path().prop_map(|path| format!("mkdir -p {path}")),
        2 => any_path().prop_map(|path| format!("rm -rf {path}")),
        2 => (any_path(), any_path()).prop_map(|(from, to)| format!("mv {from} {to}")),
        2 => (any_path(), any_path()).prop_map(|(to, path)| format!("ln -sfn {to} {path}")),
        1 => (any_path(), any_path()).prop_map(|(from, to)| format!("ln {from} {to}")),
        1 => (any_path(), any_path()).prop_map(|(from, to)| format!("cp -r {from} {to}")),
        2 => (mode, any_path()).prop_map(|(mode, path)| format!("chmod {mode} {path}")),
    ]
}

fn any_turn() -> impl Strategy<Value = String> {
    prop::collection::vec(any_command(), 1..12).prop_map(|commands| {
        let mut script = commands.join(" 2>/dev/null\n");
        script.push_str(" 2>/dev/null\ntrue");
        script
    })
}

#[track_caller]
fn assert_fully_undone(undone: &EventKind, turn: &str) {
    match undone {
        EventKind::Undone { left, .. } | EventKind::Redone { left, .. } => {
            assert!(left.is_empty(), "{left:?}: {turn}")
        }
        other => panic!("{other:?}: {turn}"),
    }
}

#[test]
fn random_changes_are_undone_exactly() {
    run_with_timeout(async {
        let mut runner = TestRunner::new(Config::default());
        let mut turns = || any_turn().new_tree(&mut runner).unwrap().current();
        let turns: Vec<String> = (0..RANDOM_TURNS).map(|_| turns()).collect();
        let script = turns.iter().flat_map(|turn| [bash(turn), done()]);
        let replies: Vec<ScriptedReply> = script.collect();
        let model: Arc<dyn Model> = Arc::new(ScriptedModel::new(Script {
            title: String::new(),
            replies,
        }));
        let world = SessionFixture::new().await;
        let mut agent = world.start(model).await;
        let mut trees = Vec::new();
        // Every third turn is kept until the end, so that there is something to change.
        for (round, turn) in turns.iter().enumerate() {
            let before = tree(&world.workspace());
            assert_eq!(agent.prompt("Change.").await, Outcome::Done);
            if round % 3 == 0 {
                trees.push(before);
                continue;
            }
            let after = tree(&world.workspace());
            let undone = agent.undo().await;
            assert_fully_undone(&undone, turn);
            assert_eq!(tree(&world.workspace()), before, "{turn}");
            if round % 3 == 1 {
                let redone = agent.redo().await;
                assert_fully_undone(&redone, turn);
                assert_eq!(tree(&world.workspace()), after, "redo of {turn}");
                let undone = agent.undo().await;
                assert_fully_undone(&undone, turn);
                assert_eq!(tree(&world.workspace()), before, "{turn}");
            }
        }
        let mut later = vec![tree(&world.workspace())];
        while let Some(before) = trees.pop() {
            later.push(before.clone());
            let undone = agent.undo().await;
            assert_fully_undone(&undone, &format!("{before:#?}"));
            assert_eq!(tree(&world.workspace()), before, "{}", trees.len());
        }
        later.pop();
        while let Some(after) = later.pop() {
            let redone = agent.redo().await;
            assert_fully_undone(&redone, &format!("{after:#?}"));
            assert_eq!(tree(&world.workspace()), after, "{}", later.len());
        }
        agent.end().await;
    });
}
