//! Nothing but text from the sandbox reaches the user's terminal.

use std::fs;
use std::process::Output;

use llm::script::ScriptedReply;
use serde_json::json;

use crate::place::{Place, assert_code, feed, hotcell, run, stderr, stdout};
use crate::scene::{KEY, Scene, bash, say, write};

/// Sets the clipboard, changes the title, colours, moves the cursor, rings, reverses text.
const ESCAPES: &str = "\x1b]52;c;ZXZpbA==\x07\x1b]0;title\x1b\\\x1b[31m\x1b[2J\x1b[1;1H\u{9b}5m\
                    \u{90}x\u{9c}\r\x08\x07\u{202e}evil\u{2066}";

#[track_caller]
fn check(output: &Output) {
    for text in [stdout(output), stderr(output)] {
        let is_evil = |letter: char| match letter {
            '\n' | '\t' => false,
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => true,
            letter => letter.is_control(),
        };
        let found = text.chars().find(|letter| is_evil(*letter));
        assert_eq!(found, None, "{text:?}");
    }
}

/// A session in which every part has escapes.
fn hostile_scene() -> Scene {
    let mut spoken = write("name\u{1b}[31m\u{202e}.txt", ESCAPES);
    spoken.text = Some(format!("words {ESCAPES}"));
    spoken.thinking = Some(format!("thoughts {ESCAPES}"));
    let octal = r"\033]52;c;ZXZpbA==\007\033[31m\302\2335m\r\b\342\200\256evil";
    let scene = Scene::new([
        spoken,
        bash(&format!(
            "printf '{octal}\\n'; printf '{octal}\\n' >&2; ls {ESCAPES}"
        )),
        ScriptedReply::call("list_files", json!({"path": "."})),
        ScriptedReply::call("no_such_tool", json!({"a": ESCAPES})),
        say(&format!("answer {ESCAPES}")),
        ScriptedReply::error(400, "invalid_request_error", &format!("error {ESCAPES}")),
    ]);
    fs::create_dir(scene.file("")).unwrap();
    fs::write(scene.file("other\u{1b}[31m\u{202e}name"), ESCAPES).unwrap();
    scene
}

#[test]
fn in_text_nothing_but_text() {
    let scene = hostile_scene();
    let output = scene.run(&["run", "--thinking", "1024", &format!("task {ESCAPES}")]);
    assert_code(&output, 0);
    check(&output);
    assert!(stdout(&output).starts_with("answer "), "{output:?}");
    let said = stderr(&output);
    for words in ["words ", "thoughts ", "● write "] {
        assert!(said.contains(words), "no `{words}` in {said}");
    }
    let output = scene.run(&["resume", "-p", ESCAPES]);
    assert_code(&output, 4);
    check(&output);
    assert!(stderr(&output).contains("error "), "{output:?}");
    let session = scene.session();
    for arguments in [
        &["sessions"][..],
        &["sessions", "show", &session],
        &["sessions", "search", "evil"],
        &["replay", &session],
        &["undo"],
        &["undo"],
        &["resume", &format!("{session}{ESCAPES}")],
        &["sessions", "show", ESCAPES],
    ] {
        check(&scene.run(arguments));
    }
}

#[test]
fn nor_from_files_of_settings() {
    let place = Place::new();
    fs::write(
        place.here(".env"),
        format!("MODEL='{ESCAPES}'\nMAX_TOKENS='{ESCAPES}'\n"),
    )
    .unwrap();
    assert_code(&run(&mut place.hotcell(["env", "allow"])), 0);
    let output = run(&mut place.hotcell(["config"]));
    assert_code(&output, 0);
    check(&output);
    assert!(stdout(&output).contains("MODEL in `.env`"), "{output:?}");
    let mut command = place.hotcell(["run", "Answer"]);
    let output = run(command.env("ANTHROPIC_API_KEY", KEY));
    assert_code(&output, 2);
    check(&output);
}

/// What a terminal receives.
fn on_terminal(scene: &Scene, line: &str, variables: &[(&str, &str)]) -> String {
    let mut command = scene.place.program("/usr/bin/script");
    command
        .args(["-qec", line, "/dev/null"])
        .env("H", hotcell())
        .env("ANTHROPIC_API_KEY", KEY)
        .env("ANTHROPIC_BASE_URL", scene.server.base_url())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh")
        .envs(variables.iter().copied());
    let output = feed(&mut command, b"");
    assert_code(&output, 0);
    stdout(&output).replace("^@", "")
}

#[test]
fn on_a_terminal_colours_are_our_own_and_can_be_left_out() {
    let scene = hostile_scene();
    let seen = on_terminal(&scene, "\"$H\" run Answer", &[]);
    // Only the program's own colours: a number, and reset.
    let mut rest = seen.as_str();
    let mut colours = 0;
    while let Some((_, after)) = rest.split_once('\x1b') {
        let is_ours = ["[0m", "[1m", "[2m", "[31m", "[32m", "[33m", "[36m"];
        assert!(
            is_ours.iter().any(|colour| after.starts_with(colour)),
            "{after:?}"
        );
        colours += 1;
        rest = after;
    }
    assert!(colours > 0, "{seen}");
    assert!(
        !seen.contains('\x07') && !seen.contains('\u{202e}'),
        "{seen:?}"
    );
    // Streamed text appears once.
    assert_eq!(seen.matches("answer ").count(), 1, "{seen}");
    let scene = hostile_scene();
    let seen = on_terminal(&scene, "\"$H\" run Answer", &[("NO_COLOR", "1")]);
    assert!(!seen.contains('\x1b'), "{seen:?}");
    // A redirected answer has no colours, although there is a terminal.
    let scene = hostile_scene();
    let seen = on_terminal(&scene, "\"$H\" run Answer > answer", &[]);
    assert!(seen.contains("\x1b[2m"), "{seen:?}");
    let answer = fs::read_to_string(scene.place.here("answer")).unwrap();
    assert!(
        answer.starts_with("answer ") && !answer.contains('\x1b'),
        "{answer:?}"
    );
}
