//! After every kind of end, the terminal is restored and the session is stored.

use nix::sys::signal::Signal;

use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn leaving() {
    let scene = Scene::new([say("Hello.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for("network: asks");
    screen.say("hi");
    screen.wait_for("Hello.");
    screen.say("/quit");
    screen.assert_left(0);
    assert!(
        screen
            .text()
            .contains(&format!("--load {}", scene.session())),
        "{}",
        screen.text()
    );
}

#[test]
fn leaving_with_a_key_that_is_pressed_twice() {
    let scene = Scene::new([say("Hello.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for("network: asks");
    screen.press(&["C-c"]);
    screen.wait_for("once more");
    screen.press(&["C-c"]);
    screen.assert_left(0);
    assert!(
        scene.sessions().is_empty(),
        "nothing was said, so nothing is kept"
    );
}

#[test]
fn signals() {
    for (signal, code) in [
        (Signal::SIGTERM, 143),
        (Signal::SIGHUP, 129),
        (Signal::SIGINT, 130),
    ] {
        let scene = Scene::new([bash("sleep 1000"), say("never")]);
        let screen = TmuxScreen::start(&scene, 80, 24, &[]);
        screen.wait_for("network: asks");
        screen.say("wait");
        screen.wait_for("sleep 1000");
        screen.signal(signal);
        screen.assert_left(code);
        assert_eq!(scene.sessions().len(), 1);
    }
}

#[test]
fn stopped_and_taken_up_again() {
    let scene = Scene::new([say("Still here.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &["--plain"]);
    // A shell with job control, which does not start the first program.
    screen.press(&["C-d"]);
    screen.wait_for("left with");
    let program = crate::place::hotcell();
    screen.say(&program.display().to_string());
    screen.wait_for("network: asks");
    screen.write("before");
    screen.wait_for("before");
    screen.press(&["C-z"]);
    screen.wait_for("Stopped");
    screen.say("fg");
    screen.wait_for("before");
    screen.say(" and after");
    screen.wait_for("Still here.");
}
