//! Resuming a session: by name, from the list, as the last one.

use crate::prompts::last_prompts;
use crate::scene::{Scene, say};
use crate::screen::TmuxScreen;

/// Runs one turn in a new session and leaves. Returns the session's name.
#[track_caller]
fn talk_once(scene: &Scene, words: &str, answer: &str) -> String {
    let screen = TmuxScreen::ready(scene, 80, 24, &[]);
    screen.say(words);
    screen.wait_for(answer);
    screen.say("/quit");
    screen.assert_left(0);
    scene.session()
}

/// The earlier turns are on the page, and in the next request.
#[track_caller]
fn go_on(scene: &Scene, screen: &TmuxScreen, past: [&str; 2], answer: &str) {
    screen.wait_for(past[1]);
    screen.wait_for(&format!("> {}", past[0]));
    screen.say("What is it?");
    screen.wait_for(answer);
    let said = last_prompts(scene);
    assert_eq!(said.first().unwrap(), past[0]);
    assert_eq!(said.last().unwrap(), "What is it?");
    let body = scene.server.requests().pop().unwrap().json();
    assert!(body["messages"].to_string().contains(past[1]), "{body}");
}

#[test]
fn by_the_beginning_of_its_name_and_as_the_last_one() {
    let scene = Scene::new(["Hello Ada.", "It is Ada.", "Still Ada."].map(say));
    let name = talk_once(&scene, "My name is Ada", "Hello Ada.");
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say(&format!("/load {}", &name[..name.len() - 1]));
    go_on(
        &scene,
        &screen,
        ["My name is Ada", "Hello Ada."],
        "It is Ada.",
    );
    screen.say("/quit");
    screen.assert_left(0);
    let screen = TmuxScreen::start(&scene, 80, 24, &["--continue"]);
    go_on(
        &scene,
        &screen,
        ["My name is Ada", "It is Ada."],
        "Still Ada.",
    );
    assert_eq!(scene.sessions().len(), 1);
    assert_eq!(scene.latest()["turns"], 3);
}

#[test]
fn from_the_list_by_words_that_were_said_in_it() {
    let scene = Scene::new(["A tangerine, then.", "A lemon, then.", "The tangerine."].map(say));
    let name = talk_once(&scene, "Choose a fruit", "A tangerine, then.");
    talk_once(&scene, "Choose another", "A lemon, then.");
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("/sessions");
    screen.wait_for("2 sessions");
    screen.wait_for("Choose a fruit");
    // Its end is previewed.
    screen.wait_for("A lemon, then.");
    screen.write("tangerine");
    screen.wait_for("look for tangerine");
    screen.wait_gone("Choose another");
    screen.wait_for(&format!("session {name}"));
    screen.press(&["Enter"]);
    screen.wait_gone("look for");
    go_on(
        &scene,
        &screen,
        ["Choose a fruit", "A tangerine, then."],
        "The tangerine.",
    );
    assert_eq!(scene.sessions().len(), 2);
}

#[test]
fn a_session_that_is_open_elsewhere_is_left_alone() {
    let scene = Scene::new(["Here.", "Still here."].map(say));
    let one = TmuxScreen::ready(&scene, 80, 24, &[]);
    one.say("Where are you?");
    one.wait_for("Here.");
    let other = TmuxScreen::ready(&scene, 80, 24, &[]);
    other.say(&format!("/load {}", scene.session()));
    other.wait_for("is in use by another hotcell");
    assert!(!other.text().contains("Here."), "{}", other.text());
    one.say("And now?");
    one.wait_for("Still here.");
    assert_eq!(last_prompts(&scene), ["Where are you?", "And now?"]);
}
