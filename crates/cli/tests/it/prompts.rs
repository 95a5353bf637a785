//! Prompts: what is accepted, and where they come from.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::process::Stdio;

use insta::assert_snapshot;
use serde_json::Value;

use crate::place::{assert_code, feed, finish, start, stderr, stdout};
use crate::scene::{Scene, say};

/// The task that the model server received.
fn task(scene: &Scene) -> String {
    let request = scene.server.requests().pop().unwrap().json();
    let content = &request["messages"].as_array().unwrap().last().unwrap()["content"];
    let text = |block: &Value| block["text"].as_str().unwrap().to_owned();
    content.as_array().unwrap().iter().map(text).collect()
}

#[test]
fn from_standard_input() {
    let scene = Scene::new([say("one"), say("two")]);
    let input = "Two lines,\nand Ünïcode ✓\n";
    let output = feed(&mut scene.hotcell(["run", "-"]), input.as_bytes());
    assert_code(&output, 0);
    assert_eq!(task(&scene), input);
    let output = feed(&mut scene.hotcell(["resume", "--prompt", "-"]), b"more");
    assert_code(&output, 0);
    assert_eq!(task(&scene), "more");
}

#[test]
fn standard_input_is_not_read_unless_asked_for() {
    let scene = Scene::new([say("one"), say("two")]);
    for arguments in [&["run", "Answer"][..], &["resume", "-p", "Answer"]] {
        let mut command = scene.hotcell(arguments.iter().copied());
        let mut child = start(command.stdin(Stdio::piped()));
        // A pipe that stays open and sends nothing.
        let input = child.stdin.take();
        let output = finish(child);
        assert_code(&output, 0);
        drop(input);
    }
}

#[test]
fn a_task_may_be_long() {
    let scene = Scene::new([say("one")]);
    let long = "word ".repeat(200_000);
    let output = feed(&mut scene.hotcell(["run", "-"]), long.as_bytes());
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "one\n");
    assert_eq!(task(&scene), long);
    // Lists show it as one line.
    let list = scene.done(&["sessions"]);
    assert_eq!(list.lines().count(), 1);
    assert!(list.len() < 300, "{list}");
}

#[test]
fn what_is_no_task() {
    let scene = Scene::new([say("never said")]);
    let mut all = String::new();
    let mut check = |output: std::process::Output| {
        assert_code(&output, 2);
        assert_eq!(stdout(&output), "");
        all.push_str(&stderr(&output));
    };
    check(scene.run(&["run", ""]));
    check(scene.run(&["run", " \n\t"]));
    check(feed(&mut scene.hotcell(["run", "-"]), b""));
    check(feed(&mut scene.hotcell(["run", "-"]), b"\n"));
    check(feed(&mut scene.hotcell(["run", "-"]), b"not \xff text"));
    check(feed(
        &mut scene.hotcell(["run", "-"]),
        &[b'a'; (16 << 20) + 1],
    ));
    check(scene.run(&["run"]));
    let mut odd = scene.hotcell(["run"]);
    check(crate::place::run(
        odd.arg(OsStr::from_bytes(b"not \xff text")),
    ));
    assert_snapshot!(all, @r#"
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`
        hotcell: the prompt is empty
        hint: give a task, such as `hotcell run "Fix the tests"`
        hotcell: cannot read the prompt: it is not UTF-8 text
        hotcell: cannot read the prompt: it is longer than 16 MiB
        hint: put it into a file in the workspace, and name the file
        hotcell: the following required arguments were not provided: <PROMPT>
        hint: quote the task, such as `hotcell run "Fix the tests"`
        hotcell: invalid UTF-8 was detected in one or more arguments
        hint: run `hotcell --help` or `hotcell help COMMAND` for usage
    "#);
    assert_eq!(scene.server.request_count(), 0);
    // No session and no workspace were created.
    assert_eq!(scene.sessions().len(), 0);
    assert!(!scene.file("").exists());
}
