//! Failed starts are reported with a hint: before the screen is taken over, if possible.

use std::fs;

use crate::place::{feed, hotcell, stdout};
use crate::scene::{KEY, Scene, say};
use crate::screen::TmuxScreen;

/// The terminal's output, and the exit code.
fn on_terminal(scene: &Scene, flags: &str, key: &str) -> (String, Option<i32>) {
    let mut command = scene.place.program("/usr/bin/script");
    command
        .args(["-qec", &format!("exec \"$H\" {flags}"), "/dev/null"])
        .env("H", hotcell())
        .env("ANTHROPIC_API_KEY", key)
        .env("ANTHROPIC_BASE_URL", scene.server.base_url())
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    let output = feed(&mut command, b"");
    (stdout(&output), output.status.code())
}

#[test]
fn the_terminal_is_not_touched_for_what_cannot_be() {
    let scene = Scene::new([say("never")]);
    fs::write(scene.place.here("file"), "").unwrap();
    for (flags, key, words) in [
        ("", "", "ANTHROPIC_API_KEY is not set"),
        ("--workspace /nowhere", KEY, "there is no such folder"),
        ("--workspace file", KEY, "it is not a folder"),
        ("--load nothing", KEY, "there is no session `nothing`"),
        ("--continue", KEY, "there is no session"),
        ("--memory much", KEY, "--memory"),
    ] {
        let (seen, code) = on_terminal(&scene, flags, key);
        assert!(matches!(code, Some(1 | 2)), "{flags}: {code:?} {seen}");
        assert!(seen.starts_with("hotcell: "), "{flags}: {seen:?}");
        assert!(seen.contains(words), "{flags}: {seen:?}");
        assert!(seen.contains("\nhint: "), "{flags}: {seen:?}");
        assert!(!seen.contains("\x1b["), "{flags}: {seen:?}");
    }
    assert_eq!(scene.server.request_count(), 0);
}

/// The first frame is drawn by then, and removed before the error is printed.
#[test]
fn a_store_that_cannot_be_opened() {
    let scene = Scene::new([say("never")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &["--data", "/dev/null/x"]);
    screen.wait_for("cannot open the store `/dev/null/x`");
    screen.wait_for("hint: ");
    screen.assert_left(1);
}

/// In a user namespace that allows no further ones.
#[test]
fn a_sandbox_that_cannot_be_made() {
    let scene = Scene::new([say("never")]);
    let mut command = scene.hotcell([]);
    let program = command.get_program().to_owned();
    let used_up = "echo 0 >/proc/sys/user/max_user_namespaces && exec \"$0\"";
    let mut outside = scene.place.program("unshare");
    outside.args(["-Ur", "sh", "-c", used_up]).arg(program);
    for (name, value) in command.env("LANG", "C.UTF-8").get_envs() {
        outside.env(name, value.unwrap());
    }
    let screen = TmuxScreen::open(&scene, (80, 24), &outside, &[]);
    screen.wait_for("cannot put up the native walls");
    screen.wait_for("hint: ");
    screen.wait_gone("starting the sandbox");
    // Typed text is not lost, and another attempt reports the error again.
    screen.say("hello");
    screen.wait_for("the agent has ended");
    screen.wait_for("> hello");
    screen.press(&["C-u"]);
    screen.wait_gone("> hello");
    screen.say("/clear");
    screen.wait_until("told again", |text| {
        text.contains("cannot put up the native walls") && !text.contains("the agent has ended")
    });
    screen.assert_intact();
    screen.say("/quit");
    screen.assert_left(0);
    assert_eq!(scene.server.request_count(), 0);
}

#[test]
fn a_session_that_another_has() {
    let scene = Scene::new([say("First."), say("Second."), say("Third.")]);
    let first = TmuxScreen::start(&scene, 80, 24, &[]);
    first.wait_for(": asks");
    first.say("hello");
    first.wait_for("First.");
    let session = scene.session();
    let (seen, code) = on_terminal(&scene, &format!("--load {session}"), KEY);
    assert!(matches!(code, Some(1 | 2)), "{code:?} {seen}");
    assert!(
        seen.contains(&session) && seen.contains("\nhint: "),
        "{seen}"
    );
    assert!(!seen.contains("\x1b["), "{seen:?}");
    // The open session stays open.
    let second = TmuxScreen::start(&scene, 80, 24, &[]);
    second.wait_for(": asks");
    second.say("hello");
    second.wait_for("Second.");
    second.say(&format!("/load {session}"));
    second.wait_for("hint: ");
    second.say("and on");
    second.wait_for("Third.");
    first.assert_intact();
}
