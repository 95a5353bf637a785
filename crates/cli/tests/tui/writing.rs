//! Typed and pasted text arrives unchanged.

use crate::prompts::last_prompts;
use crate::scene::{Scene, say};
use crate::screen::TmuxScreen;

#[test]
fn many_lines_are_written_in_each_of_the_ways() {
    let scene = Scene::new([say("RequestView.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.write("one");
    screen.press(&["M-Enter"]);
    screen.write("two");
    screen.press(&["C-j"]);
    screen.write("three\\");
    screen.press(&["Enter"]);
    screen.say("four");
    screen.wait_for("RequestView.");
    assert_eq!(last_prompts(&scene), ["one\ntwo\nthree\nfour"]);
    assert_eq!(scene.server.request_count(), 1);
}

#[test]
fn a_pasted_block_is_one_message_byte_for_byte() {
    for (block, shown) in [
        (
            "fn main() {\n\tprintln!(\"é 日本語 🦀\");   \n\n}\\\n  the end",
            "the end",
        ),
        (
            "first\n/quit\n\"\"\"\n> four \n\tfive\\\n\n  seven",
            "7 lines",
        ),
    ] {
        let scene = Scene::new([say("RequestView.")]);
        let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
        screen.paste(block);
        screen.wait_for(shown);
        assert_eq!(scene.server.request_count(), 0, "no line is sent by itself");
        screen.press(&["Enter"]);
        screen.wait_for("RequestView.");
        assert_eq!(last_prompts(&scene), [block]);
        assert_eq!(scene.server.request_count(), 1);
    }
}

#[test]
fn a_long_pasted_block_is_shown_collapsed_and_arrives_whole() {
    let scene = Scene::new([say("Thanks.")]);
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    let pasted: String = (1..=10_000).map(|line| format!("line {line}\n")).collect();
    screen.write("before ");
    screen.paste(&pasted);
    screen.wait_for("10,000 lines");
    let text = screen.text();
    assert!(!text.contains("line 5000"), "{text}");
    assert!(!text.contains("line 9999"), "{text}");
    screen.write(" after");
    screen.wait_for("after");
    screen.press(&["Enter"]);
    screen.wait_for("Thanks.");
    let said = last_prompts(&scene).pop().unwrap();
    // Not in the failure message: it is long.
    assert!(said == format!("before {pasted} after"), "{}", said.len());
    assert_eq!(scene.server.request_count(), 1);
}

#[test]
fn what_was_said_before_comes_back() {
    let scene = Scene::new(["One.", "Two.", "Three."].map(say));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("the first words");
    screen.wait_for("One.");
    screen.say("others");
    screen.wait_for("Two.");
    screen.press(&["Up", "Up"]);
    screen.wait_until("twice", |text| {
        text.matches("> the first words").count() == 2
    });
    screen.say(" again");
    screen.wait_for("Three.");
    let said = last_prompts(&scene);
    assert_eq!(said, ["the first words", "others", "the first words again"]);
}

#[test]
fn a_message_is_written_in_another_editor() {
    let scene = Scene::new([say("RequestView.")]);
    let editor = scene.place.home().join("editor");
    std::fs::write(&editor, "printf 'from outside\\n' >>\"$1\"\n").unwrap();
    let editor = format!("sh '{}'", editor.display());
    let screen = TmuxScreen::start_with(&scene, 80, 24, &[], &[("EDITOR", &editor)]);
    screen.wait_for("network: asks");
    screen.write("from here");
    screen.press(&["M-Enter"]);
    screen.wait_for("> from here");
    screen.press(&["C-g"]);
    screen.wait_for("from outside");
    screen.write("!");
    screen.wait_for("from outside!");
    screen.press(&["Enter"]);
    screen.wait_for("RequestView.");
    assert_eq!(last_prompts(&scene), ["from here\nfrom outside!"]);
}

#[test]
fn files_of_the_workspace_are_completed() {
    let scene = Scene::new([say("Seen.")]);
    let folder = scene.file("src/deep");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("needle_of_ours.rs"), "").unwrap();
    std::fs::write(scene.file("other.rs"), "").unwrap();
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.write("look at @ndlours");
    screen.wait_for("src/deep/needle_of_ours.rs");
    screen.press(&["Tab"]);
    screen.wait_for("> look at @src/deep/needle_of_ours.rs");
    screen.say("and tell");
    screen.wait_for("Seen.");
    assert_eq!(
        last_prompts(&scene),
        ["look at @src/deep/needle_of_ours.rs and tell"]
    );
}

#[test]
fn what_was_said_before_is_looked_for() {
    let scene = Scene::new(["One.", "Two.", "Three."].map(say));
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("plant an orchard");
    screen.wait_for("One.");
    screen.say("water it");
    screen.wait_for("Two.");
    screen.press(&["C-r"]);
    screen.wait_for("said before");
    screen.write("orch");
    screen.wait_until("it is found", |text| {
        text.matches("> plant an orchard").count() == 2
    });
    screen.press(&["Enter"]);
    screen.wait_gone("said before");
    screen.say(" again");
    screen.wait_for("Three.");
    assert_eq!(
        last_prompts(&scene).last().unwrap(),
        "plant an orchard again"
    );
}

#[test]
fn a_pasted_path_of_a_picture_is_the_picture() {
    let scene = Scene::new([say("A dot.")]);
    let path = scene.place.here("dot.png");
    std::fs::write(&path, b"\x89PNG\r\n\x1a\n and so on").unwrap();
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.write("what is ");
    screen.paste(path.to_str().unwrap());
    screen.wait_for("[image: dot.png");
    screen.say(" here?");
    screen.wait_for("A dot.");
    let body = scene.server.requests().pop().unwrap().json();
    let content = body["messages"][0]["content"].as_array().unwrap();
    let mut pictures = content.iter().filter(|block| block["type"] == "image");
    let picture = pictures.next().unwrap();
    assert_eq!(picture["source"]["media_type"], "image/png");
    assert!(pictures.next().is_none());
    let said = last_prompts(&scene).pop().unwrap();
    assert!(said.starts_with("what is "), "{said}");
    assert!(said.contains(" here?"), "{said}");
    assert!(!said.contains(path.to_str().unwrap()), "{said}");
}

#[test]
fn a_picture_is_added_by_command_and_one_that_is_none_is_not() {
    let scene = Scene::new([say("A dot.")]);
    std::fs::write(scene.place.here("dot.png"), b"\x89PNG\r\n\x1a\n and so on").unwrap();
    std::fs::write(scene.place.here("words.png"), "no picture").unwrap();
    let screen = TmuxScreen::ready(&scene, 80, 24, &[]);
    screen.say("/image words.png");
    screen.wait_for("words.png");
    screen.wait_for("✗");
    screen.say("/image dot.png");
    screen.wait_for("[image: dot.png");
    screen.say("what is it?");
    screen.wait_for("A dot.");
    let body = scene.server.requests().pop().unwrap().json();
    let content = body["messages"][0]["content"].as_array().unwrap();
    let pictures = content.iter().filter(|block| block["type"] == "image");
    assert_eq!(pictures.count(), 1);
}
