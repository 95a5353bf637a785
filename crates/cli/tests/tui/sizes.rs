//! Any size, and any change of it at any time.

use std::fs;

use nix::sys::signal::Signal;
use testkit::{ScriptedAnswer, StreamGate};

use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

/// All lines fit; two of them are the rules around the editor if there is space.
#[track_caller]
fn wait_to_fit(screen: &TmuxScreen, width: u16, height: u16) {
    let rule = "─".repeat(width.into());
    screen.wait_until(&format!("it fits {width}x{height}"), |text| {
        let lines: Vec<&str> = text.lines().collect();
        let rules = lines.iter().filter(|line| **line == rule).count();
        let expect = if height < 8 { 0 } else { 2 };
        rules == expect && lines.len() == usize::from(height)
    });
}

#[test]
fn what_is_written_is_seen_at_every_size() {
    let scene = Scene::new([say("It is **done**.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("do it");
    screen.wait_for("It is done.");
    screen.assert_intact();
    let before = screen.text();
    for (width, height) in [(300, 100), (20, 5), (120, 40), (40, 10)] {
        screen.resize(width, height);
        wait_to_fit(&screen, width, height);
        screen.write("seen");
        screen.wait_for("> seen");
        screen.press(&["BSpace"; 4]);
        screen.wait_gone("> seen");
        if width > 20 {
            screen.wait_for("It is done.");
        }
    }
    screen.resize(1, 1);
    screen.write("x");
    screen.resize(2, 2);
    screen.press(&["BSpace"]);
    screen.resize(80, 24);
    screen.wait_until("as before", |text| text == before);
    screen.assert_intact();
    // A dialogue that fits no screen can still be closed.
    screen.say("/help");
    screen.wait_for("esc close");
    screen.resize(1, 1);
    screen.resize(20, 5);
    screen.press(&["Escape"]);
    screen.resize(80, 24);
    screen.wait_until("as before", |text| text == before);
}

#[test]
fn everything_is_drawn_anew_at_a_size_that_it_had_before() {
    let scene = Scene::new([say("It is **done**.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("do it");
    screen.wait_for("It is done.");
    // Leftovers from a moment at another size.
    fs::write(screen.ask("#{pane_tty}"), "\x1b[5;1Hleft from another size").unwrap();
    screen.wait_for("left from another size");
    screen.signal(Signal::SIGWINCH);
    screen.wait_gone("left from another size");
    screen.assert_intact();
}

#[test]
fn a_storm_of_sizes_while_words_come_and_a_command_prints() {
    let gate = StreamGate::new();
    let mut spoken = say(&"some words that come one by one ".repeat(60));
    spoken.pace_ms = 5;
    // Until the test ends it.
    let printing = "i=0; until [ -e enough ]; do i=$((i+1)); echo \"printed $i\"; done";
    spoken.calls = bash(printing).calls;
    let spoken = ScriptedAnswer::reply(spoken).hold(200, &gate);
    let scene = Scene::new([spoken, say("The end of the storm.").into()]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for(": asks");
    screen.say("go");
    screen.wait_for("one by one");
    let mut seed: u32 = 1;
    let mut storm = |count: usize| {
        for _ in 0..count {
            // Pseudo-random, the same each time.
            let mut next = |most: u32| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (seed >> 16) % most + 1
            };
            let (width, height) = (next(300) as u16, next(100) as u16);
            screen.resize(width, height);
        }
    };
    storm(100);
    gate.open();
    screen.resize(80, 24);
    screen.wait_for("printed");
    storm(100);
    fs::write(scene.file("enough"), "").unwrap();
    screen.resize(100, 30);
    screen.wait_for("The end of the storm.");
    screen.wait_gone("esc interrupts");
    wait_to_fit(&screen, 100, 30);
    screen.assert_intact();
    screen.say("/quit");
    screen.assert_left(0);
}
