//! Ordinary conversations.

use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn a_reply_a_command_and_its_output_are_shown() {
    let scene = Scene::new([
        bash("echo from $((40 + 2)) inside; echo done >made"),
        say("It printed **from 42 inside**."),
    ]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for("network: asks");
    screen.say("run something");
    screen.wait_for("It printed from 42 inside.");
    let text = screen.text();
    assert!(text.contains("run something"), "{text}");
    assert_eq!(scene.read("made"), "done\n");
}

#[test]
fn a_paste_of_many_lines_is_one_message() {
    let scene = Scene::new([say("Thanks.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for("network: asks");
    let pasted: String = (1..=10_000).map(|line| format!("line {line}\n")).collect();
    screen.paste(&pasted);
    screen.wait_for("pasted");
    screen.say(" that was it");
    screen.wait_for("Thanks.");
    let request = scene.server.requests().pop().unwrap().json();
    let said = request["messages"][0]["content"].to_string();
    assert!(said.contains(r"line 9999\nline 10000"), "{}", said.len());
    assert!(said.contains("that was it"), "{}", said.len());
    assert_eq!(scene.server.requests().len(), 1);
}

#[test]
fn it_follows_every_size() {
    let scene = Scene::new([say("The end of it.")]);
    let screen = TmuxScreen::start(&scene, 80, 24, &[]);
    screen.wait_for("network: asks");
    screen.say("go");
    screen.wait_for("The end of it.");
    for step in 0..40_u16 {
        screen.resize(20 + step * 37 % 200, 5 + step * 11 % 60);
    }
    for (width, height) in [(300, 100), (20, 5), (80, 24)] {
        screen.resize(width, height);
        let rule = "─".repeat(usize::from(width));
        screen.wait_until("it fits", |text| text.matches(&rule).count() >= 1);
        let widest = screen.text().lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width.into()), "{}", screen.text());
    }
    screen.wait_for("The end of it.");
}
