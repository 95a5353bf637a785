//! Ctrl-C, Ctrl-D and Esc.

use super::*;

fn check(mut test: TestApp, script: &str, effects: &[&str], text: &str) {
    test.keys(script).expect(effects, text);
}

const QUIT_EFFECTS: [&str; 2] = ["Quit", "Quit"];

#[test]
fn quitting_takes_two_presses() {
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
fn the_second_press_must_come_soon() {
    let mut test = TestApp::new();
    test.keys("<ctrl-c>");
    assert_eq!(test.app.hint(), Some("once more to leave"));
    assert_eq!(test.app.wakes_at(), Some(Duration::from_secs(2)));
    test.wait(2_000);
    assert_eq!((test.app.hint(), test.app.wakes_at()), (None, None));
    test.keys("<ctrl-c>")
        .expect(&[], "")
        .keys("<ctrl-c>")
        .expect(&QUIT_EFFECTS, "");
}

#[test]
fn a_running_turn_is_interrupted_first() {
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
fn two_presses_clear_the_message_and_undo_restores_it() {
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
fn refresh_and_suspend_are_effects() {
    check(TestApp::new(), "a<ctrl-g>", &["Edit(\"a\")"], "a");
    check(TestApp::new(), "a<ctrl-z>", &["Suspend"], "a");
    check(TestApp::new(), "a<ctrl-l>", &["Refresh"], "a");
}

#[test]
fn the_host_can_end_the_ui() {
    TestApp::new().notice(UiNotice::Quit).expect(&["Quit"], "");
}
