//! Keys on the page: calls are opened, closed and copied, and no letter is lost.

use crate::prompts::last_prompts;
use crate::scene::{Scene, bash, say};
use crate::screen::TmuxScreen;

#[test]
fn a_call_is_opened_copied_and_closed() {
    let scene = Scene::new([bash("seq 11 22"), say("Counted."), say("Two.")]);
    let screen = TmuxScreen::ready(&scene, 80, 30, &[]);
    screen.say("Count");
    screen.wait_for("Counted.");
    // Closed, it shows only the end.
    screen.wait_for("│ 22");
    assert!(!screen.text().contains("│ 11"), "{}", screen.text());
    screen.press(&["Tab"]);
    screen.wait_for("enter opens");
    screen.press(&["Enter"]);
    screen.wait_for("│ 11");
    screen.press(&["y"]);
    crate::place::eventually("a copy", || screen.has_clipboard());
    let copied = screen.clipboard();
    assert!(copied.starts_with("$ seq 11 22\n11\n12\n"), "{copied}");
    assert!(copied.contains("\n22\n"), "{copied}");
    screen.press(&["Enter"]);
    screen.wait_gone("│ 11");
    // A letter without a meaning here starts a message.
    screen.write("x is next");
    screen.wait_for("> x is next");
    screen.press(&["Enter"]);
    screen.wait_for("Two.");
    assert_eq!(last_prompts(&scene), ["Count", "x is next"]);
}

#[test]
fn the_page_is_scrolled_while_a_message_is_written() {
    let lines: Vec<String> = (1..=200).map(|line| format!("* line {line}")).collect();
    let scene = Scene::new([say(&lines.join("\n")), say("Two.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("Count");
    screen.wait_for("• line 200");
    screen.write("half a ");
    screen.wait_for("> half a");
    screen.press(&["C-Home"]);
    screen.wait_for("> Count");
    screen.wait_gone("• line 200");
    screen.press(&["PageDown"]);
    screen.wait_gone("> Count");
    screen.write("word");
    screen.wait_for("> half a word");
    screen.press(&["C-End"]);
    screen.wait_for("• line 200");
    screen.press(&["Enter"]);
    screen.wait_for("Two.");
    assert_eq!(last_prompts(&scene), ["Count", "half a word"]);
}
