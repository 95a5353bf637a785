//! Resuming a session: by name or the last one, in a copy, and never twice at once.

use std::fs;

use serde_json::Value;
use testkit::{ScriptedAnswer, StreamGate};

use crate::json_events;
use crate::place::{assert_code, finish, run, start, stderr, stdout};
use crate::scene::{Scene, bash, lines, say, write};

/// The messages of the latest request, with their roles.
fn conversation(scene: &Scene) -> Vec<String> {
    let request = scene.server.requests().pop().unwrap().json();
    let messages = request["messages"].as_array().unwrap();
    let text = |message: &Value| {
        let blocks = message["content"].as_array().unwrap();
        let texts: Vec<&str> = blocks
            .iter()
            .filter_map(|block| block["text"].as_str())
            .collect();
        format!("{}: {}", message["role"].as_str().unwrap(), texts.join("|"))
    };
    messages.iter().map(text).collect()
}

#[test]
fn without_a_name_it_is_the_last_of_this_workspace() {
    let scene = Scene::new(["a", "b", "c", "d"].map(say));
    for folder in ["one", "two"] {
        fs::create_dir(scene.place.here(folder)).unwrap();
    }
    scene.done(&["run", "--workspace", "one", "first"]);
    scene.done(&["run", "--workspace", "two", "second"]);
    scene.done(&["resume", "--workspace", "one", "--prompt", "go on"]);
    assert_eq!(
        conversation(&scene),
        ["user: first", "assistant: a", "user: go on"]
    );
    let mut by_variable = scene.hotcell(["resume", "--prompt", "go on"]);
    assert_code(&run(by_variable.env("SAFEDIR", "two")), 0);
    assert_eq!(
        conversation(&scene),
        ["user: second", "assistant: b", "user: go on"]
    );
    let output = scene.run(&["resume", "--prompt", "go on"]);
    assert_code(&output, 2);
    let said = "hotcell: there is no session in `./workspace`\n\
                hint: `hotcell sessions` lists the sessions of all workspaces\n";
    assert_eq!(stderr(&output), said);
    // Looking for a session creates no folder.
    assert!(!scene.file("").exists());
}

#[test]
fn by_name_it_works_where_it_did_before() {
    let scene = Scene::new([write("a", "1\n"), say("made"), bash("cat a"), say("seen")]);
    scene.done(&["run", "Make a file"]);
    let session = scene.session();
    let elsewhere = scene.place.here("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    // A prefix of the name is enough.
    let mut command = scene.hotcell(["resume", &session[..17], "--prompt", "Look at it"]);
    let output = run(command.current_dir(&elsewhere));
    assert_code(&output, 0);
    let results = scene.results();
    assert!(results[0].starts_with("1\n"), "{results:?}");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
}

#[test]
fn a_session_whose_workspace_is_gone() {
    let scene = Scene::new([say("a")]);
    scene.done(&["run", "first"]);
    fs::remove_dir_all(scene.file("")).unwrap();
    let output = scene.run(&["resume", &scene.session(), "--prompt", "go on"]);
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("there is no such folder"),
        "{output:?}"
    );
}

#[test]
fn nothing_left_to_do() {
    let scene = Scene::new([say("a")]);
    scene.done(&["run", "first"]);
    let before = scene.sessions();
    let output = scene.run(&["resume"]);
    assert_code(&output, 2);
    assert_eq!(stdout(&output), "");
    let said = "hotcell: there is no unfinished turn to continue\n\
                hint: give the next task with `--prompt`\n";
    assert_eq!(stderr(&output), said);
    // As JSON too.
    let output = scene.run(&["resume", "--json"]);
    assert_code(&output, 2);
    let events = lines(&stdout(&output));
    json_events::check(&events, 1);
    assert_eq!(events.last().unwrap()["type"], "command_refused");
    assert_eq!(scene.sessions(), before);
    assert_eq!(scene.server.request_count(), 1);
}

#[test]
fn a_copy_leaves_the_session_as_it_was() {
    let scene = Scene::new(["a", "b", "c"].map(say));
    scene.done(&["run", "first"]);
    let original = scene.session();
    let export = || scene.done(&["sessions", "export", &original, "-o", "-"]);
    let before = export();
    assert_eq!(
        scene.done(&["resume", &original, "--fork", "-p", "another way"]),
        "b\n"
    );
    assert_eq!(
        conversation(&scene),
        ["user: first", "assistant: a", "user: another way"]
    );
    assert_eq!(export(), before);
    let sessions = scene.sessions();
    assert_eq!(sessions.len(), 2);
    let copy = scene.session();
    assert_ne!(copy, original);
    let exported = scene.done(&["sessions", "export", &copy, "-o", "-"]);
    let exported: Value = serde_json::from_str(&exported).unwrap();
    let origin = &exported["events"][0]["forked_from"];
    assert_eq!(origin["session"], original.as_str());
    // Both can be resumed independently.
    scene.done(&["resume", &original, "-p", "as before"]);
    assert_eq!(
        conversation(&scene),
        ["user: first", "assistant: a", "user: as before"]
    );
}

#[test]
fn two_at_once_on_one_session() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("a")).hold(1, &gate);
    let scene = Scene::new([held, say("in the copy").into(), say("b").into()]);
    let child = start(&mut scene.hotcell(["run", "first"]));
    gate.wait_reached();
    let session = scene.session();
    let in_use = format!(
        "hotcell: session `{session}` is in use by another hotcell\n\
         hint: end the other one, or continue in a copy with `hotcell resume --fork`\n"
    );
    for arguments in [
        &["resume", "-p", "me too"][..],
        &["resume", &session],
        &["undo"],
        &["sessions", "delete", &session],
    ] {
        let output = scene.run(arguments);
        assert_code(&output, 2);
        assert_eq!(stderr(&output), in_use, "{arguments:?}");
    }
    // Reading it is possible, and so is a copy.
    assert!(
        scene
            .done(&["sessions", "show", &session])
            .contains("first")
    );
    assert_eq!(
        scene.done(&["resume", &session, "--fork", "-p", "me too"]),
        "in the copy\n"
    );
    gate.open();
    let output = finish(child);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "a\n");
    assert_eq!(scene.done(&["resume", &session, "-p", "me too"]), "b\n");
}

#[test]
fn a_store_inside_the_workspace_is_refused() {
    let scene = Scene::new([say("a")]);
    fs::create_dir(scene.file("")).unwrap();
    let inside = "workspace/data";
    let hint = "hint: a sandbox could rewrite it: choose another folder with `--data FOLDER`\n";
    for arguments in [
        &["run", "--data", inside, "first"][..],
        &["demo", "--data", inside],
    ] {
        let output = scene.run(arguments);
        assert_code(&output, 2);
        let said =
            format!("hotcell: the session store `{inside}` lies inside the workspace\n{hint}");
        assert_eq!(stderr(&output), said);
    }
    assert!(!scene.file("data").exists());
    // Also if the workspace is chosen later.
    fs::create_dir_all(scene.place.here("outside/data")).unwrap();
    scene.done(&["run", "--data", "outside/data", "first"]);
    for command in ["resume", "undo"] {
        let output = scene.run(&[command, "--data", "outside/data", "--workspace", "outside"]);
        assert_code(&output, 2);
        assert!(
            stderr(&output).contains("there is no session in"),
            "{output:?}"
        );
    }
    let output = run(scene
        .hotcell(["sessions", "--json"])
        .env("HOTCELL_DATA", "outside/data"));
    let session: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let session = session["session"].as_str().unwrap();
    for command in ["resume", "undo"] {
        let flags = ["--data", "outside/data", "--workspace", "outside"];
        let output = scene.run(&[&[command, session], &flags[..]].concat());
        assert_code(&output, 2);
        assert!(
            stderr(&output).contains("lies inside the workspace"),
            "{output:?}"
        );
    }
}
