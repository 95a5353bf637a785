//! Slash commands on the screen.

use std::fs;

use serde_json::Value;

use crate::prompts::last_prompts;
use crate::scene::{Scene, say, write};
use crate::screen::TmuxScreen;

#[track_caller]
fn last_model(scene: &Scene) -> Value {
    scene.server.requests().pop().unwrap().json()["model"].clone()
}

#[test]
fn another_model_by_its_name_and_from_the_list() {
    let scene = Scene::new(["One.", "Two.", "Three."].map(say));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    screen.wait_for("One.");
    assert_ne!(last_model(&scene), "claude-other");
    screen.say("/model claude-other");
    screen.wait_for("the model is now claude-other");
    screen.say("second");
    screen.wait_for("Two.");
    assert_eq!(last_model(&scene), "claude-other");
    screen.say("/model");
    screen.wait_for("type to look for words, or a name");
    screen.wait_for("▸ claude-other  in use");
    screen.write("opus-4-5");
    screen.wait_for("▸ claude-opus-4-5");
    screen.press(&["Enter"]);
    screen.wait_for("the model is now claude-opus-4-5");
    screen.say("third");
    screen.wait_for("Three.");
    assert_eq!(last_model(&scene), "claude-opus-4-5");
    assert_eq!(last_prompts(&scene), ["first", "second", "third"]);
}

#[test]
fn a_summary_takes_the_place_of_the_past() {
    let long = "A very long story. ".repeat(400) + "\n\nIts end.";
    let scene = Scene::new([
        say(&long),
        say("Two."),
        say("In short: a story was told."),
        say("Three."),
    ]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Tell me a story");
    screen.wait_for("Its end.");
    screen.say("And?");
    screen.wait_for("Two.");
    screen.say("/compact");
    screen.wait_for("the past was put into a summary");
    screen.say("Which story?");
    screen.wait_for("Three.");
    let requests = scene.server.requests();
    assert_eq!(requests.len(), 4);
    let said = requests[3].json()["messages"].to_string();
    for part in [
        "Tell me a story",
        "In short: a story was told.",
        "Which story?",
    ] {
        assert!(said.contains(part), "no `{part}` in {said}");
    }
    assert!(!said.contains("A very long story"), "{said}");
    assert!(requests[3].body.len() < requests[1].body.len());
}

#[test]
fn a_copy_and_a_new_session() {
    let scene = Scene::new(["One.", "Two.", "Three."].map(say));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    screen.wait_for("One.");
    let name = scene.session();
    screen.say("/fork");
    screen.wait_for(&format!("a fork of {name}"));
    screen.say("second");
    screen.wait_for("Two.");
    assert_eq!(last_prompts(&scene), ["first", "second"]);
    screen.say("/clear");
    screen.wait_gone("Two.");
    screen.wait_for("what do you want done?");
    screen.say("third");
    screen.wait_for("Three.");
    assert_eq!(last_prompts(&scene), ["third"]);
    let sessions = scene.sessions();
    let mut turns: Vec<u64> = sessions
        .iter()
        .map(|session| session["turns"].as_u64().unwrap())
        .collect();
    turns.sort_unstable();
    assert_eq!(turns, [1, 1, 2]);
}

#[test]
fn what_can_be_looked_at() {
    let scene = Scene::new([write("src/made.txt", "one\ntwo\n"), say("Written.")]);
    let screen = TmuxScreen::ready(&scene, 80, 40, &[]);
    screen.say("Write it");
    screen.wait_for("Written.");
    let look = |command: &str, parts: &[&str]| {
        screen.say(command);
        for part in parts {
            screen.wait_for(part);
        }
        screen.wait_gone("> Write it");
        screen.press(&["Escape"]);
        screen.wait_for("> Write it");
    };
    look("/diff", &["changes  1 file", "src/made.txt", "+two"]);
    look("/files", &["files  1 file", "src/\n  made.txt"]);
    look("/cost", &["requests", "claude-", "context"]);
    look("/help", &["commands", "/undo", "take back the last turn"]);
    screen.say("/nothing");
    screen.wait_for("there is no command `/nothing`");
}

#[test]
fn a_session_is_written_to_a_file() {
    let scene = Scene::new([say("One.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    screen.wait_for("One.");
    screen.say("/export here.json");
    screen.wait_for("written to `here.json`");
    let file = fs::read_to_string(scene.place.here("here.json")).unwrap();
    let document: Value = serde_json::from_str(&file).unwrap();
    assert_eq!(document["turns"], 1);
    assert_eq!(document["session"], scene.session());
    screen.say("/export here.json");
    screen.wait_for("already exists");
}

#[test]
fn the_last_reply_is_copied() {
    let reply = "Two lines:\n\n* one **bold**\n* 日本語";
    let scene = Scene::new([say("Before."), say(reply)]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("first");
    screen.wait_for("Before.");
    screen.say("second");
    screen.wait_for("日本語");
    screen.wait_gone("esc interrupts");
    screen.say("/copy");
    screen.wait_for("copied");
    crate::place::eventually("a copy", || screen.has_clipboard());
    assert_eq!(screen.clipboard(), reply);
}

/// Ignores what is at the edges of the line.
fn has_line(screen: &str, line: &str) -> bool {
    let mut lines = screen.lines();
    lines.any(|shown| shown.trim_matches(['▸', '│', '▐', ' ']) == line)
}

#[test]
fn words_are_found_on_the_page() {
    let lines: Vec<String> = (1..=200).map(|line| format!("* line {line}")).collect();
    let scene = Scene::new([say(&lines.join("\n")), say("Two.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Count");
    screen.wait_for("line 200");
    screen.say("/search line 7");
    // 7 and 70 to 79.
    screen.wait_for("place 11 of 11");
    screen.wait_until("the last place", |text| has_line(text, "• line 79"));
    screen.press(&["n"]);
    screen.wait_for("place 1 of 11");
    screen.wait_until("the first place", |text| has_line(text, "• line 7"));
    screen.wait_gone("• line 79");
    screen.press(&["Escape"]);
    screen.wait_gone("place 1");
    screen.say("Back");
    screen.wait_for("Two.");
}

#[test]
fn commands_are_completed() {
    let scene = Scene::new([say("never")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.write("/he");
    screen.wait_for("keys and commands");
    screen.press(&["Tab"]);
    screen.wait_for("> /help");
    screen.press(&["Enter"]);
    screen.wait_for("take back the last turn");
    screen.press(&["Escape"]);
    screen.wait_gone("take back the last turn");
    assert_eq!(scene.server.request_count(), 0);
}
