//! Undo and redo of turns, with their files.

use std::fs;

use crate::prompts::last_prompts;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn files_and_conversation_go_back_and_forth_together() {
    let scene = Scene::new([
        bash("echo after >old; echo new >new"),
        say("Changed."),
        say("Two."),
        say("Fresh."),
    ]);
    fs::create_dir(scene.place.here("workspace")).unwrap();
    fs::write(scene.file("old"), "before\n").unwrap();
    let screen = TmuxScreen::ready(&scene, 80, 30, &[]);
    screen.say("Change them");
    screen.wait_for("Changed.");
    assert_eq!(scene.read("old"), "after\n");

    screen.say("/undo");
    screen.wait_for("turn 1 was taken back");
    screen.wait_gone("Changed.");
    assert_eq!(scene.read("old"), "before\n");
    assert!(!scene.file("new").exists());

    screen.say("/redo");
    screen.wait_for("turn 1 counts again");
    screen.wait_for("Changed.");
    assert_eq!(scene.read("old"), "after\n");
    assert_eq!(scene.read("new"), "new\n");
    screen.say("And now?");
    screen.wait_for("Two.");
    assert_eq!(last_prompts(&scene), ["Change them", "And now?"]);

    screen.say("/undo");
    screen.wait_for("turn 2 was taken back");
    screen.say("/undo");
    screen.wait_for("turn 1 was taken back");
    assert_eq!(scene.read("old"), "before\n");
    screen.say("Anew");
    screen.wait_for("Fresh.");
    assert_eq!(last_prompts(&scene), ["Anew"]);
}
