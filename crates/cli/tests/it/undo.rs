//! `hotcell undo` undoes files and conversation together; `hotcell replay` runs calls again.

use std::fs;

use crate::place::{assert_code, run, stderr, stdout};
use crate::scene::{Scene, bash, lines, say, write};

#[test]
fn files_and_conversation_go_back_together() {
    let scene = Scene::new([
        write("kept", "first\n"),
        say("one"),
        bash("echo second > kept; mkdir new; echo x > new/file; rm gone"),
        say("two"),
        say("three"),
    ]);
    fs::create_dir(scene.file("")).unwrap();
    fs::write(scene.file("gone"), "there\n").unwrap();
    scene.done(&["run", "the first turn"]);
    scene.done(&["resume", "-p", "the second turn"]);
    assert_eq!(scene.read("kept"), "second\n");
    let output = scene.run(&["undo"]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "");
    let said = stderr(&output);
    assert!(said.contains("turn 2 undone: 2 files restored, "), "{said}");
    assert_eq!(
        (scene.read("kept"), scene.read("gone")),
        ("first\n".into(), "there\n".into())
    );
    assert!(!scene.file("new").exists());
    // The next request does not contain the undone turn.
    scene.done(&["resume", "-p", "the third turn"]);
    let last = scene.server.requests().pop().unwrap().json()["messages"].to_string();
    assert!(
        last.contains("the first turn") && last.contains("the third turn"),
        "{last}"
    );
    assert!(
        !last.contains("the second turn") && !last.contains("two"),
        "{last}"
    );
    assert_eq!(scene.latest()["turns"], 2);
    let shown = scene.done(&["sessions", "show", &scene.session()]);
    assert!(shown.contains("(turn 2 was undone)"), "{shown}");
}

#[test]
fn back_to_the_beginning_and_no_further() {
    let scene = Scene::new([write("a", "1\n"), say("one"), say("two")]);
    scene.done(&["run", "first"]);
    assert_code(&scene.run(&["undo"]), 0);
    assert!(!scene.file("a").exists());
    let before = scene.sessions();
    let output = scene.run(&["undo"]);
    assert_code(&output, 2);
    assert_eq!(stderr(&output), "hotcell: there is no turn to undo\n");
    assert_eq!(scene.sessions(), before);
    // It can start again.
    scene.done(&["resume", "-p", "second"]);
    let last = scene.server.requests().pop().unwrap().json();
    assert_eq!(last["messages"].as_array().unwrap().len(), 1);
}

#[test]
fn what_others_changed_since_is_left() {
    let scene = Scene::new([write("a", "1\n"), say("one")]);
    scene.done(&["run", "first"]);
    fs::write(scene.file("a"), "mine\n").unwrap();
    fs::write(scene.file("b"), "mine too\n").unwrap();
    let output = scene.run(&["undo"]);
    assert_code(&output, 0);
    let said = stderr(&output);
    assert!(
        said.contains("`a` was not restored: it was changed since, or cannot be written"),
        "{said}"
    );
    assert_eq!(
        (scene.read("a"), scene.read("b")),
        ("mine\n".into(), "mine too\n".into())
    );
}

#[test]
fn never_in_another_workspace() {
    let scene = Scene::new([write("a", "1\n"), say("one")]);
    scene.done(&["run", "first"]);
    let other = scene.place.here("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("a"), "mine\n").unwrap();
    let session = scene.session();
    let output = scene.run(&["undo", &session, "--workspace", "other"]);
    assert_code(&output, 2);
    let said = stderr(&output);
    assert!(
        said.starts_with(&format!("hotcell: session {session} worked in `/")),
        "{said}"
    );
    assert!(
        said.ends_with("hint: omit `--workspace` to restore its files\n"),
        "{said}"
    );
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "mine\n");
    // By name, from anywhere, its own workspace is restored.
    let mut command = scene.hotcell(["undo", &session]);
    assert_code(&run(command.current_dir(&other)), 0);
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "mine\n");
    assert!(!scene.file("a").exists());
}

#[test]
fn a_replay_that_gives_the_same() {
    let scene = Scene::new([
        bash("cat before"),
        write("a", "1\n"),
        bash("cat a; cd /tmp; X=5"),
        bash("pwd; echo $X; false"),
        say("one"),
    ]);
    fs::create_dir(scene.file("")).unwrap();
    fs::write(scene.file("before"), "was there\n").unwrap();
    scene.done(&["run", "first"]);
    fs::write(scene.file("before"), "changed since\n").unwrap();
    let session = scene.session();
    let said = scene.done(&["replay", &session]);
    let expected = "same     $ cat before\n\
                    same     write a\n\
                    same     $ cat a; cd /tmp; X=5\n\
                    same     $ pwd; echo $X; false\n\
                    4 calls replayed, 0 differ\n";
    assert_eq!(said, expected);
    let calls = lines(&scene.done(&["replay", "--json", &session]));
    assert_eq!(calls.len(), 4);
    assert!(calls.iter().all(|call| call["same"] == true), "{calls:?}");
    // It worked in a separate folder.
    assert_eq!(scene.read("before"), "changed since\n");
    assert_eq!(scene.server.request_count(), 5);
}

#[test]
fn a_replay_that_differs() {
    let scene = Scene::new([
        bash("date +%s%N; echo and the rest"),
        bash("echo same"),
        say("one"),
    ]);
    scene.done(&["run", "first"]);
    let session = scene.session();
    let output = scene.run(&["replay", &session]);
    assert_code(&output, 1);
    let said = stdout(&output);
    let lines_of = |sign: &str| said.lines().filter(|line| line.starts_with(sign)).count();
    assert!(
        said.starts_with("differs  $ date +%s%N; echo and the rest\n"),
        "{said}"
    );
    assert_eq!(
        (lines_of("         - 1"), lines_of("         + 1")),
        (1, 1),
        "{said}"
    );
    assert!(
        said.ends_with("same     $ echo same\n2 calls replayed, 1 differ\n"),
        "{said}"
    );
    let output = scene.run(&["replay", "--json", &session]);
    assert_code(&output, 1);
    let calls = lines(&stdout(&output));
    let recorded = calls[0]["difference"]["recorded"].as_str().unwrap();
    assert!(recorded.contains("and the rest"), "{recorded}");
    assert_eq!(calls[1]["difference"], serde_json::Value::Null);
}
