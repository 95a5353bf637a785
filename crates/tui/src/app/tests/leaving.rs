//! Ctrl-C, Ctrl-D and Esc.

use super::*;

fn check(mut stage: Stage, script: &str, wants: &[&str], written: &str) {
    stage.keys(script).expect(wants, written);
}

const LEFT: [&str; 2] = ["Quit", "Quit"];

#[test]
fn leaving_takes_two_keys() {
    check(Stage::new(), "<ctrl-c>", &[], "");
    check(Stage::new(), "<ctrl-c><ctrl-c>", &LEFT, "");
    check(Stage::new(), "<ctrl-d><ctrl-d>", &LEFT, "");
    check(Stage::new(), "<ctrl-c><ctrl-d>", &LEFT, "");
    check(Stage::new(), "<ctrl-c>a<ctrl-c>", &[], "");
    check(Stage::new(), "<ctrl-c>a⌫<ctrl-c>", &[], "");
    check(Stage::new(), "text<ctrl-c>", &[], "");
    check(Stage::new(), "text<ctrl-c><ctrl-c><ctrl-c>", &LEFT, "");
    check(Stage::new(), "text<ctrl-a><ctrl-d>", &[], "ext");
    check(Stage::new(), "text<ctrl-d><ctrl-d>", &[], "text");
}

#[test]
fn the_second_key_has_to_come_soon() {
    let mut stage = Stage::new();
    stage.keys("<ctrl-c>");
    assert_eq!(stage.app.hint(), Some("once more to leave"));
    assert_eq!(stage.app.wakes_at(), Some(Duration::from_secs(2)));
    stage.wait(2_000);
    assert_eq!((stage.app.hint(), stage.app.wakes_at()), (None, None));
    stage
        .keys("<ctrl-c>")
        .expect(&[], "")
        .keys("<ctrl-c>")
        .expect(&LEFT, "");
}

#[test]
fn a_turn_is_interrupted_first() {
    check(Stage::busy(), "⎋", &["Interrupt"], "");
    check(Stage::busy(), "text⎋", &["Interrupt"], "text");
    check(Stage::busy(), "<ctrl-c>", &["Interrupt"], "");
    check(Stage::busy(), "text<ctrl-c>", &[], "");
    check(
        Stage::busy(),
        "<ctrl-c><ctrl-c>",
        &["Interrupt", "Quit", "Quit"],
        "",
    );
}

#[test]
fn a_message_is_cleared_by_two_and_comes_back() {
    check(Stage::new(), "some text⎋", &[], "some text");
    check(Stage::new(), "some text⎋⎋", &[], "");
    check(Stage::new(), "some text⎋x⎋", &[], "some textx");
    check(Stage::new(), "some text⎋⎋<ctrl-/>", &[], "some text");
    check(Stage::new(), "some text<ctrl-c><ctrl-/>", &[], "some text");
    check(Stage::new(), "⎋⎋", &[], "");
}

#[test]
fn the_terminal_is_asked_for_other_things() {
    check(Stage::new(), "a<ctrl-g>", &["Edit(\"a\")"], "a");
    check(Stage::new(), "a<ctrl-z>", &["Suspend"], "a");
    check(Stage::new(), "a<ctrl-l>", &["Refresh"], "a");
}

#[test]
fn the_program_around_can_end_it() {
    Stage::new().hear(Notice::Quit).expect(&["Quit"], "");
}
