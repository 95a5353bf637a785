//! Questions before a connection leaves the sandbox: shown, answered, and never by an earlier key.

use std::fs;

use testkit::{Replies, ScriptedAnswer, StreamGate};

use crate::scene::{Scene, bash, results, say};
use crate::screen::TmuxScreen;

/// Prints the proxy's response, whether or not the host exists.
const FETCH_SCRIPT: &str = r#"import urllib.error
import urllib.request

try:
    print(urllib.request.urlopen("http://example.com/").status)
except urllib.error.HTTPError as error:
    print(error.code, error.read().decode())
"#;

const QUESTION: &str = "● connect to example.com:80";
/// Shown once a letter would be an answer.
const ANSWERABLE_HINT: &str = "a letter answers only on its own";

fn fetch_scene(replies: impl IntoIterator<Item = ScriptedAnswer>) -> Scene {
    let scene = Scene::new(Replies::list(replies));
    fs::create_dir(scene.place.here("workspace")).unwrap();
    fs::write(scene.file("fetch.py"), FETCH_SCRIPT).unwrap();
    scene
}

fn fetch() -> ScriptedAnswer {
    bash("python3 fetch.py").into()
}

/// The call result in this request, counted from 1.
#[track_caller]
fn result(scene: &Scene, request: usize) -> String {
    results(&scene.server.requests()[request - 1]).join("")
}

#[track_caller]
fn answer(screen: &TmuxScreen, letter: &str) {
    screen.wait_for(QUESTION);
    screen.wait_for(ANSWERABLE_HINT);
    screen.press(&[letter]);
    screen.wait_gone(QUESTION);
}

#[test]
fn what_was_typed_before_the_question_does_not_answer_it() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(bash("python3 fetch.py")).hold(0, &gate);
    let scene = fetch_scene([held, say("So be it.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Fetch it");
    gate.wait_reached();
    screen.write("yyyy");
    screen.wait_for("> yyyy");
    gate.open();
    screen.wait_for(QUESTION);
    screen.wait_for("no rule names this host");
    // Letters are still part of the message; only with Alt are they answers.
    screen.wait_for("answers need alt");
    screen.write("ys");
    screen.wait_for("> yyyyys");
    assert!(screen.text().contains(QUESTION), "{}", screen.text());
    assert_eq!(scene.server.request_count(), 1, "the call still waits");
    screen.press(&["C-u"]);
    answer(&screen, "n");
    screen.wait_for("denied once: connect to example.com:80");
    screen.wait_for("So be it.");
    let told = result(&scene, 2);
    assert!(told.contains("403 "), "{told}");
    assert!(told.contains("the person said no"), "{told}");
}

#[test]
fn an_answer_for_the_session_is_not_asked_for_again() {
    let scene = fetch_scene([fetch(), say("One.").into(), fetch(), say("Two.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Fetch it");
    answer(&screen, "s");
    screen.wait_for("allowed for this session: example.com");
    screen.wait_for("One.");
    screen.wait_for("example.com, asks");
    screen.say("Again");
    screen.wait_for("Two.");
    for request in [2, 4] {
        let told = result(&scene, request);
        assert!(!told.contains("403 "), "{told}");
    }
    let rules = scene.place.home().join(".config/hotcell/rules.toml");
    assert!(!rules.exists());
}

#[test]
fn an_answer_for_always_is_a_rule_of_the_next_session_too() {
    let scene = fetch_scene([fetch(), say("One.").into(), fetch(), say("Two.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Fetch it");
    answer(&screen, "a");
    screen.wait_for("always allowed: example.com");
    screen.wait_for("One.");
    screen.wait_for("saved as a rule in");
    let rules = scene.place.home().join(".config/hotcell/rules.toml");
    let rules = fs::read_to_string(rules).unwrap();
    assert!(rules.contains("host = \"example.com\""), "{rules}");
    assert!(rules.contains("action = \"allow\""), "{rules}");
    screen.say("/quit");
    screen.assert_left(0);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.wait_for("example.com, asks");
    screen.say("Again");
    screen.wait_for("Two.");
    assert!(!result(&scene, 4).contains("403 "));
}

#[test]
fn an_interrupt_takes_the_question_back() {
    let scene = fetch_scene([fetch(), say("Two.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Fetch it");
    screen.wait_for(QUESTION);
    screen.press(&["Escape"]);
    screen.wait_for("interrupted\n");
    screen.wait_gone(QUESTION);
    screen.say("Go on");
    screen.wait_for("Two.");
}

#[test]
fn a_host_is_opened_before_anybody_asks() {
    let scene = fetch_scene([fetch(), say("One.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("/allow example.com");
    screen.wait_for("example.com, asks");
    screen.say("Fetch it");
    screen.wait_for("One.");
    assert!(!result(&scene, 2).contains("403 "));
}

#[test]
fn a_host_that_is_never_to_be_asked_for_is_not() {
    let scene = fetch_scene([fetch(), say("One.").into(), fetch(), say("Two.").into()]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Fetch it");
    answer(&screen, "d");
    screen.wait_for("always denied: example.com");
    screen.wait_for("One.");
    screen.wait_for("saved as a rule in");
    let rules = scene.place.home().join(".config/hotcell/rules.toml");
    let rules = fs::read_to_string(rules).unwrap();
    assert!(rules.contains("action = \"deny\""), "{rules}");
    screen.say("Again");
    screen.wait_for("Two.");
    for request in [2, 4] {
        let told = result(&scene, request);
        assert!(told.contains("403 "), "{told}");
    }
}

#[test]
fn nobody_is_asked_who_does_not_want_to_be() {
    let scene = fetch_scene([
        bash("python3 fetch.py 2>&1").into(),
        say("So be it.").into(),
    ]);
    // Wide enough for the whole network status.
    let screen = TmuxScreen::start(&scene, 120, 30, &["--no-ask"]);
    screen.wait_for("no network");
    screen.say("Fetch it");
    screen.wait_for("So be it.");
    assert!(!screen.text().contains("question"), "{}", screen.text());
    // There is no proxy at all.
    let told = result(&scene, 2);
    assert!(told.contains("URLError") && !told.contains("403"), "{told}");
    screen.say("/allow example.com");
    screen.wait_for("cannot allow a host: this sandbox has no proxy");
}
