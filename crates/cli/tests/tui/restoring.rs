//! Forced ends: nothing is left running, and the session can be resumed.

use nix::sys::signal::Signal;
use testkit::{ScriptedAnswer, StreamGate};

use crate::place::eventually;
use crate::processes::{ProcessStat, family};
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

/// A reply is being streamed, after a command used the sandbox.
fn in_the_middle() -> (Scene, TmuxScreen, Vec<ProcessStat>) {
    let held = ScriptedAnswer::reply(say("alpha beta gamma delta")).hold(5, &StreamGate::new());
    let scene = Scene::new([bash("echo begun").into(), held, say("epsilon").into()]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("count");
    screen.wait_for("alpha");
    let family = family(screen.pid());
    assert!(family.len() > 1, "there is a sandbox: {family:?}");
    (scene, screen, family)
}

/// Nothing is left running, and the session continues with everything that was stored.
#[track_caller]
fn check(scene: &Scene, family: &[ProcessStat], kept: &str) {
    eventually("all processes are gone", || {
        family.iter().all(ProcessStat::is_gone)
    });
    let screen = TmuxScreen::start(scene, 80, 24, &["--continue"]);
    screen.wait_for(": asks");
    screen.wait_for(kept);
    screen.say("go on");
    screen.wait_for("epsilon");
    let last = scene.server.requests().pop().unwrap().json();
    assert!(last.to_string().contains(kept), "{last}");
}

#[test]
fn a_signal_in_the_middle_of_words() {
    for (signal, code) in [(Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let (scene, screen, family) = in_the_middle();
        screen.signal(signal);
        screen.assert_left(code);
        check(&scene, &family, "alpha");
    }
}

#[test]
fn a_terminal_that_is_closed() {
    let (scene, screen, family) = in_the_middle();
    screen.close();
    check(&scene, &family, "alpha");
}

#[test]
fn killed() {
    let (scene, screen, family) = in_the_middle();
    screen.signal(Signal::SIGKILL);
    screen.wait_for("left with 137");
    // Text is stored when the reply is complete or was interrupted, not after a kill.
    check(&scene, &family, "begun");
}

#[test]
fn held_and_let_go_in_another_size() {
    let gate = StreamGate::new();
    let held = ScriptedAnswer::reply(say("alpha beta gamma delta")).hold(5, &gate);
    let scene = Scene::new([held]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("count");
    screen.wait_for("alpha");
    screen.signal(Signal::SIGSTOP);
    screen.resize(100, 30);
    gate.open();
    screen.write("typed meanwhile");
    screen.signal(Signal::SIGCONT);
    screen.wait_for("alpha beta gamma delta");
    screen.wait_for("> typed meanwhile");
    screen.press(&["C-u"]);
    screen.wait_gone("typed meanwhile");
    screen.assert_intact();
    let rule = "─".repeat(100);
    assert_eq!(screen.text().matches(&rule).count(), 2);
}
