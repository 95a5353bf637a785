//! A terminal that accepts no output for a while, as after Ctrl-S or on a stalled connection.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;

use nix::fcntl::OFlag;
use nix::sys::termios::{FlowArg, tcflow};
use testkit::{ScriptedAnswer, StreamGate};

use crate::place::eventually;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

/// The program's terminal.
fn terminal(screen: &TmuxScreen) -> File {
    OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits())
        .open(screen.ask("#{pane_tty}"))
        .unwrap()
}

#[test]
fn the_agent_goes_on_and_nothing_is_lost() {
    let gate = StreamGate::new();
    let first = ScriptedAnswer::reply(bash("seq 300000; echo made >made")).hold(0, &gate);
    let scene = Scene::new([first, say("The last words.").into()]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("go");
    gate.wait_reached();
    let terminal = terminal(&screen);
    tcflow(&terminal, FlowArg::TCOOFF).unwrap();
    gate.open();
    scene.server.wait_for(2);
    eventually("the turn is done", || scene.latest()["outcome"] == "done");
    assert_eq!(scene.read("made"), "made\n");
    screen.write("typed meanwhile");
    assert!(!screen.text().contains("The last words."));
    tcflow(&terminal, FlowArg::TCOON).unwrap();
    screen.wait_for("The last words.");
    screen.wait_for("> typed meanwhile");
    screen.press(&["C-u"]);
    screen.wait_gone("typed meanwhile");
    screen.assert_intact();
    screen.press(&["C-o"]);
    screen.wait_for("300000");
}
