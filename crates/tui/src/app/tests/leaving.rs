//! Ctrl-C, Ctrl-D and Esc.

use super::*;

fn check(mut stage: TestApp, script: &str, wants: &[&str], written: &str) {
    stage.keys(script).expect(wants, written);
}

const QUIT_EFFECTS: [&str; 2] = ["Quit", "Quit"];

#[test]
fn leaving_takes_two_keys() {
    check(TestApp::new(), "<ctrl-c>", &[], "");
    check(TestApp::new(), "<ctrl-c><ctrl-c>", &QUIT_EFFECTS, "");
    check(TestApp::new(), "<ctrl-d><ctrl-d>", &QUIT_EFFECTS, "");
    check(TestApp::new(), "<ctrl-c><ctrl-d>", &QUIT_EFFECTS, "");
    check(TestApp::new(), "<ctrl-c>a<ctrl-c>", &[], "");
    check(TestApp::new(), "<ctrl-c>a⌫<ctrl-c>", &[], "");
    check(TestApp::new(), "text<ctrl-c>", &[], "");
    check(
        TestApp::new(),
        "text<ctrl-c><ctrl-c><ctrl-c>",
        &QUIT_EFFECTS,
        "",
    );
    check(TestApp::new(), "text<ctrl-a><ctrl-d>", &[], "ext");
    check(TestApp::new(), "text<ctrl-d><ctrl-d>", &[], "text");
}

#[test]
fn the_second_key_has_to_come_soon() {
    let mut stage = TestApp::new();
    stage.keys("<ctrl-c>");
    assert_eq!(stage.app.hint(), Some("once more to leave"));
    assert_eq!(stage.app.wakes_at(), Some(Duration::from_secs(2)));
    stage.wait(2_000);
    assert_eq!((stage.app.hint(), stage.app.wakes_at()), (None, None));
    stage
        .keys("<ctrl-c>")
        .expect(&[], "")
        .keys("<ctrl-c>")
        .expect(&QUIT_EFFECTS, "");
}

#[test]
fn a_turn_is_interrupted_first() {
    check(TestApp::busy(), "⎋", &["Interrupt"], "");
    check(TestApp::busy(), "text⎋", &["Interrupt"], "text");
    check(TestApp::busy(), "<ctrl-c>", &["Interrupt"], "");
    check(TestApp::busy(), "text<ctrl-c>", &[], "");
    check(
        TestApp::busy(),
        "<ctrl-c><ctrl-c>",
        &["Interrupt", "Quit", "Quit"],
        "",
    );
}

#[test]
fn a_message_is_cleared_by_two_and_comes_back() {
    check(TestApp::new(), "some text⎋", &[], "some text");
    check(TestApp::new(), "some text⎋⎋", &[], "");
    check(TestApp::new(), "some text⎋x⎋", &[], "some textx");
    check(TestApp::new(), "some text⎋⎋<ctrl-/>", &[], "some text");
    check(
        TestApp::new(),
        "some text<ctrl-c><ctrl-/>",
        &[],
        "some text",
    );
    check(TestApp::new(), "⎋⎋", &[], "");
}

#[test]
fn the_terminal_is_asked_for_other_things() {
    check(TestApp::new(), "a<ctrl-g>", &["Edit(\"a\")"], "a");
    check(TestApp::new(), "a<ctrl-z>", &["Suspend"], "a");
    check(TestApp::new(), "a<ctrl-l>", &["Refresh"], "a");
}

#[test]
fn the_program_around_can_end_it() {
    TestApp::new().hear(UiNotice::Quit).expect(&["Quit"], "");
}
