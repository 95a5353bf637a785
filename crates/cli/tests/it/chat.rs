//! `hotcell` without a subcommand, in lines: prompts and commands through a pipe.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Output, Stdio};

use insta::assert_snapshot;
use nix::sys::signal::Signal;
use serde_json::Value;
use testkit::{ScriptedAnswer, StreamGate};

use crate::place::{Place, assert_code, feed, finish, processes_with, run, start, stderr, stdout};
use crate::scene::{Scene, bash, say, send, write};

/// Runs `hotcell` with these flags and input lines to its end.
#[track_caller]
fn talk(scene: &Scene, flags: &[&str], lines: &[&str]) -> Output {
    let said = lines.join("\n") + "\n";
    feed(&mut scene.hotcell(flags.iter().copied()), said.as_bytes())
}

/// The user's messages in the last request.
#[track_caller]
fn prompts(scene: &Scene) -> Vec<String> {
    let last = scene.server.requests().pop().unwrap().json();
    let messages = last["messages"].as_array().unwrap().clone();
    let is_person = |message: &&Value| message["role"] == "user";
    let words = |message: &Value| match &message["content"] {
        Value::String(text) => text.clone(),
        blocks => blocks[0]["text"].as_str().unwrap_or_default().to_owned(),
    };
    messages.iter().filter(is_person).map(words).collect()
}

#[test]
fn prompts_one_after_the_other_are_one_session() {
    let scene = Scene::new(["one", "two", "three"].map(say));
    let output = talk(&scene, &[], &["First", "", "Second", "Third"]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "one\ntwo\nthree\n");
    assert_eq!(prompts(&scene), ["First", "Second", "Third"]);
    let sessions = scene.sessions();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["turns"], 3);
    // Without a terminal, no prompt is shown.
    assert!(!stderr(&output).contains("> "), "{output:?}");
}

#[test]
fn many_lines_can_be_one_prompt() {
    let scene = Scene::new(["1", "2", "3"].map(say));
    let lines = [
        "a\\",
        "b",
        "\"\"\"",
        "c",
        "",
        "/quit",
        "\"\"\"",
        "/usr/bin is a folder",
    ];
    assert_code(&talk(&scene, &["--plain"], &lines), 0);
    assert_eq!(
        prompts(&scene),
        ["a\nb", "c\n\n/quit", "/usr/bin is a folder"]
    );
}

#[test]
fn nothing_said_leaves_nothing_behind() {
    for lines in [
        &[][..],
        &["/clear", "/clear"],
        &["/quit", "Hello"],
        &["/undo"],
    ] {
        let scene = Scene::new([say("never")]);
        talk(&scene, &[], lines);
        assert_eq!(scene.sessions(), [] as [Value; 0], "{lines:?}");
        assert!(scene.server.requests().is_empty());
    }
}

#[test]
fn turns_are_taken_back_and_again() {
    let scene = Scene::new([write("hello", "hi\n"), say("done")]);
    let lines = [
        "Write", "/files", "/diff", "/undo", "/files", "/diff", "/redo", "/files",
    ];
    let output = talk(&scene, &[], &lines);
    assert_code(&output, 0);
    assert_eq!(scene.read("hello"), "hi\n");
    assert_snapshot!(stdout(&output), @r"
    done
    hello
    hello
    @@ -0,0 +1 @@
    +hi
    hello
    ");
    let said = stderr(&output);
    for line in [
        "turn 1 undone: 0 files restored, 1 removed",
        "nothing was changed",
        "turn 1 redone: 1 files restored, 0 removed",
    ] {
        assert!(said.lines().any(|one| one == line), "no `{line}` in {said}");
    }
}

#[test]
fn sessions_are_opened_by_name_or_as_the_last() {
    let scene = Scene::new(["1", "2", "3", "4", "5"].map(say));
    assert_code(&talk(&scene, &[], &["First"]), 0);
    let first = scene.session();
    let load = format!("/load {first}");
    assert_code(&talk(&scene, &[], &["Other", &load, "Second"]), 0);
    assert_eq!(prompts(&scene), ["First", "Second"]);
    assert_code(
        &talk(&scene, &["--load", &first[..first.len() - 1]], &["Third"]),
        0,
    );
    assert_eq!(prompts(&scene), ["First", "Second", "Third"]);
    let output = talk(&scene, &["--continue"], &["Again"]);
    assert_code(&output, 0);
    assert_eq!(prompts(&scene), ["Other", "Again"]);
    assert_eq!(scene.sessions().len(), 2);
    let listed = talk(&scene, &[], &["/sessions"]);
    let lines = stdout(&listed);
    assert_eq!(lines.lines().count(), 2);
    assert!(lines.contains(&first) && lines.ends_with("Other\n") | lines.ends_with("First\n"));
}

#[test]
fn a_copy_goes_its_own_way() {
    let scene = Scene::new(["1", "2", "3"].map(say));
    let output = talk(&scene, &[], &["First", "/fork", "Second", "/fork", "Third"]);
    assert_code(&output, 0);
    assert_eq!(prompts(&scene), ["First", "Second", "Third"]);
    let turns: Vec<Value> = scene
        .sessions()
        .iter()
        .map(|one| one["turns"].clone())
        .collect();
    assert_eq!(turns, [3, 2, 1]);
}

#[test]
fn a_session_that_is_in_use_is_left_alone() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("one")).hold(0, &gate);
    let scene = Scene::new([held, say("two").into()]);
    let child = start(&mut scene.hotcell(["run", "First"]));
    gate.wait_reached();
    let name = scene.session();
    let load = format!("/load {name}");
    let output = talk(&scene, &[], &[&load]);
    assert_code(&output, 2);
    assert!(
        stderr(&output).contains("is in use by another hotcell\nhint: "),
        "{output:?}"
    );
    assert_code(&talk(&scene, &["--load", &name], &["Hello"]), 2);
    gate.open();
    assert_code(&finish(child), 0);
}

#[test]
fn what_is_wrong_is_said_in_a_line() {
    let scene = Scene::new([say("never")]);
    let lines = [
        "/nothing",
        "/load",
        "/load nonsense",
        "/undo",
        "/undo it",
        "/redo",
        "/fork",
        "/continue",
        "/compact",
        "/export",
        "/model openai/",
        "/allow https://example.com",
        "/image missing.png",
        "/search words",
    ];
    let mut all = String::new();
    for line in lines {
        let output = talk(&scene, &[], &[line]);
        assert_code(&output, 2);
        assert_eq!(stdout(&output), "");
        all.push_str(&format!("{line}\n{}\n", stderr(&output)));
    }
    assert_snapshot!(all, @r"
        /nothing
        hotcell: there is no command `/nothing`
        hint: `/help` lists commands

        /load
        hotcell: `/load` requires SESSION
        hint: `/help` lists commands

        /load nonsense
        hotcell: there is no session `nonsense`
        hint: `/sessions` lists sessions

        /undo
        hotcell: there is no turn to undo

        /undo it
        hotcell: `/undo` takes no argument
        hint: `/help` lists commands

        /redo
        hotcell: there is nothing to redo

        /fork
        hotcell: the conversation is empty

        /continue
        hotcell: there is no unfinished turn to continue

        /compact
        hotcell: the conversation is empty

        /export
        hotcell: the conversation is empty

        /model openai/
        hotcell: cannot use the model `openai/`: an `openai/…` model requires a base URL

        /allow https://example.com
        hotcell: cannot allow a host: this sandbox has no proxy

        /image missing.png
        hotcell: cannot use `missing.png` as a picture: No such file or directory (os error 2)

        /search words
        hotcell: this command requires the full screen
        hint: run without `--plain`
    ");
    assert!(scene.server.requests().is_empty());
    // The next prompt is still handled, and its outcome counts.
    let output = talk(&scene, &[], &["/nothing", "Hello"]);
    assert_code(&output, 0);
    assert_eq!(stdout(&output), "never\n");
}

/// A failure that is not retried.
fn refusal() -> ScriptedAnswer {
    ScriptedAnswer::body(400, "application/json", "{}")
}

#[test]
fn the_exit_code_is_that_of_the_last_turn() {
    let check = |answers: Vec<ScriptedAnswer>, flags: &[&str], code: i32| {
        let scene = Scene::new(answers);
        assert_code(&talk(&scene, flags, &["One", "Two"]), code);
    };
    check(vec![say("1").into(), say("2").into()], &[], 0);
    check(vec![say("1").into(), refusal()], &[], 4);
    check(vec![refusal(), say("2").into()], &[], 0);
    check(
        vec![say("1").into(), say("2").into()],
        &["--max-turns", "1"],
        3,
    );
}

#[test]
fn what_would_ask_is_denied_where_nobody_can_be_asked() {
    let scene = Scene::new([bash("touch made"), say("so be it")]);
    let folder = scene.place.home().join(".config/hotcell");
    fs::create_dir_all(&folder).unwrap();
    let rules = "[[rule]]\ntool = \"bash\"\naction = \"ask\"\n";
    fs::write(folder.join("rules.toml"), rules).unwrap();
    let output = talk(&scene, &[], &["Touch", "y"]);
    assert!(!scene.file("made").exists());
    let results = scene.server.requests();
    let denied = crate::scene::results(&results[1]);
    assert!(denied[0].contains("nobody can be asked"), "{denied:?}");
    // The letter was no answer but the next prompt, for which there is no reply.
    assert_eq!(results.len(), 3, "{output:?}");
}

#[test]
fn what_can_be_looked_at() {
    let scene = Scene::new([say("one")]);
    let lines = [
        "Hello",
        "/cost",
        "/model",
        "/allow",
        "/help",
        "/export here.json",
        "/export here.json",
    ];
    let output = talk(&scene, &["--model", "claude-sonnet-4-5"], &lines);
    assert_code(&output, 2);
    let said = stdout(&output);
    for part in [
        "one\n1 request · ",
        "claude-sonnet-4-5\n",
        "no host is open\n",
        "/undo ",
        "\nhere.json\n",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    let file = fs::read_to_string(scene.place.here("here.json")).unwrap();
    let document: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(document["turns"], 1);
    assert!(
        stderr(&output).contains("`here.json` already exists\nhint: "),
        "{output:?}"
    );
}

#[test]
fn another_model_is_asked_from_then_on() {
    let scene = Scene::new(["1", "2", "3"].map(say));
    let lines = ["One", "/model claude-other", "Two", "/clear", "Three"];
    assert_code(&talk(&scene, &[], &lines), 0);
    let requests = scene.server.requests();
    let models: Vec<Value> = requests
        .iter()
        .map(|one| one.json()["model"].clone())
        .collect();
    assert_eq!(models[1..], ["claude-other", "claude-other"]);
    assert_ne!(models[0], "claude-other");
}

#[test]
fn pictures_go_with_the_next_message() {
    let scene = Scene::new(["1", "2"].map(say));
    fs::write(scene.place.here("dot.png"), b"\x89PNG\r\n\x1a\n and so on").unwrap();
    assert_code(&talk(&scene, &[], &["/image dot.png", "Look", "And?"]), 0);
    let body = scene.server.requests()[1].json();
    let first = &body["messages"][0]["content"];
    assert_eq!(first[1]["source"]["media_type"], "image/png");
    assert!(!body["messages"][2]["content"].to_string().contains("image"));
}

/// A chat whose input stays open.
fn open(command: &mut Command) -> std::process::Child {
    start(command.stdin(Stdio::piped()))
}

#[test]
fn an_interrupt_stops_the_turn_and_not_the_session() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("one two")).hold(5, &gate);
    let scene = Scene::new([held, say("three").into()]);
    let mut child = open(&mut scene.hotcell([]));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Count\nGo on\n").unwrap();
    gate.wait_reached();
    send(&child, Signal::SIGINT);
    scene.server.wait_hung_up(1);
    drop(stdin);
    let output = finish(child);
    assert_code(&output, 0);
    assert!(stdout(&output).ends_with("three\n"), "{output:?}");
    assert!(
        stderr(&output).contains("hotcell: interrupted\n"),
        "{output:?}"
    );
    let last = scene.server.requests().pop().unwrap().json();
    assert!(last["messages"].to_string().contains("Go on"), "{last}");
}

#[test]
fn signals_end_the_session_with_their_code() {
    for (place, (signals, code)) in [
        (&[Signal::SIGTERM][..], 143),
        (&[Signal::SIGHUP], 129),
        (&[Signal::SIGINT, Signal::SIGTERM], 143),
    ]
    .into_iter()
    .enumerate()
    {
        let marker = format!("1005.{}{place}", std::process::id());
        let gate = StreamGate::new();
        let command = bash(&format!("trap '' INT TERM; sleep {marker}"));
        let held = ScriptedAnswer::reply(say("never")).hold(0, &gate);
        let scene = Scene::new([command.into(), held]);
        let mut child = open(&mut scene.hotcell([]));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"Sleep\n").unwrap();
        crate::place::eventually("the command runs", || !processes_with(&marker).is_empty());
        for signal in signals {
            send(&child, *signal);
        }
        assert_code(&finish(child), code);
        crate::place::eventually("the command is gone", || processes_with(&marker).is_empty());
    }
}

#[test]
fn an_interrupt_while_nothing_is_under_way_ends_it() {
    let scene = Scene::new([say("one")]);
    let mut child = open(&mut scene.hotcell([]));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(b"Hello\n").unwrap();
    let mut answer = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut answer)
        .unwrap();
    assert_eq!(answer, "one\n");
    // It waits for the next line by now, or will.
    send(&child, Signal::SIGINT);
    assert_code(&finish(child), 130);
}

#[test]
fn what_is_wrong_with_the_settings_comes_first() {
    let place = Place::new();
    let output = run(&mut place.hotcell([]));
    assert_code(&output, 2);
    let said = stderr(&output);
    assert!(
        said.starts_with("hotcell: ANTHROPIC_API_KEY is not set\nhint: "),
        "{said}"
    );
    assert_eq!(output.stdout, b"");
}
