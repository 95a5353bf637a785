//! Browsing the page, and searching the page and the history.

use protocol::{CallKind, CallSummary};

use super::*;
use crate::app::AppFocus;

fn app_with_turn() -> TestApp {
    let mut stage = TestApp::new();
    stage.event(started(1, "needle one"));
    stage.event(EventKind::ToolStarted {
        call: "c1".into(),
        name: "bash".to_owned(),
        input: serde_json::json!({"command": "ls"}),
        summary: Box::new(CallSummary::new(CallKind::Command, "$", "ls")),
    });
    stage.event(EventKind::ToolEnded {
        call: "c1".into(),
        name: "bash".to_owned(),
        content: vec![Block::text("needle two")],
        is_error: false,
        kept: None,
        changes: Vec::new(),
        millis: 1,
        denied: Some(false),
        summary: None,
    });
    stage.event(ended(1, Outcome::Done));
    stage
}

#[test]
fn letters_that_mean_nothing_on_the_page_are_typed() {
    fn check(script: &str, focus: AppFocus, written: &str) {
        let mut stage = app_with_turn();
        stage.keys(script).expect(&[], written);
        assert_eq!(stage.app.focus, focus, "{script}");
    }
    check("⇥", AppFocus::Browse, "");
    check("⇥kjg", AppFocus::Browse, "");
    check("⇥h", AppFocus::Editor, "h");
    check("⇥hello", AppFocus::Editor, "hello");
    check("so⇥x", AppFocus::Editor, "sox");
    check("⇥q", AppFocus::Editor, "");
    check("⇥i", AppFocus::Editor, "");
    check("⇥⎋", AppFocus::Editor, "");
    check("kept⇥<ctrl-c>", AppFocus::Editor, "kept");
    check("kept<ctrl-f>a<ctrl-c>", AppFocus::Editor, "kept");
    check("⇥?", AppFocus::Editor, "?");
}

#[test]
fn a_paste_on_the_page_goes_to_the_editor() {
    let mut stage = app_with_turn();
    stage.keys("⇥").paste("y n q").expect(&[], "y n q");
    assert_eq!(stage.app.focus, AppFocus::Editor);
    stage.keys("⏎<ctrl-r>").paste("one\ntwo");
    stage.expect(&["say y n q"], "one\ntwo");
    assert_eq!(stage.app.focus, AppFocus::Editor);
}

#[test]
fn an_entry_is_copied() {
    let mut stage = app_with_turn();
    stage.keys("⇥y");
    assert!(stage.wants[0].starts_with("Copy("), "{:?}", stage.wants);
}

#[test]
fn words_are_looked_for_on_the_page() {
    fn check(script: &str, places: Option<usize>, focus: AppFocus) {
        let mut stage = app_with_turn();
        stage.keys(script).expect(&[], "");
        let found = stage.app.transcript.match_position().map(|(_, all)| all);
        assert_eq!((found, &stage.app.focus), (places, &focus), "{script}");
    }
    let words = |words: &str| AppFocus::Search {
        words: words.to_owned(),
    };
    check("<ctrl-f>needle", Some(2), words("needle"));
    check("<ctrl-f>needle⏎", Some(2), AppFocus::Browse);
    check("<ctrl-f>needle⏎nN", Some(2), AppFocus::Browse);
    check("⇥/needle⏎", Some(2), AppFocus::Browse);
    check("/search needle⏎", Some(2), AppFocus::Browse);
    check("/search⏎needle o", Some(1), words("needle o"));
    check("<ctrl-f>needle ox⌫", Some(1), words("needle o"));
    check("<ctrl-f>nothing⏎", None, AppFocus::Editor);
    check("<ctrl-f>needle⎋", None, AppFocus::Editor);
    check("<ctrl-f>needle⏎⎋", None, AppFocus::Editor);
}

#[test]
fn what_was_said_comes_back() {
    fn check(script: &str, wants: &[&str], written: &str) {
        let mut stage = TestApp::new();
        for words in ["first", "second one", "third"] {
            stage.keys(words).keys("⏎").event(started(1, words));
            stage.event(ended(1, Outcome::Done));
        }
        stage.wants.clear();
        stage.keys(script).expect(wants, written);
    }
    check("↑", &[], "third");
    check("↑↑", &[], "second one");
    check("↑↑↑↑", &[], "first");
    check("↑↑↓", &[], "third");
    check("draft↑", &[], "third");
    check("draft↑↓", &[], "draft");
    check("draft↑↑↓↓", &[], "draft");
    check("↑ more⏎", &["say third more"], "");
    check("↑x↓", &[], "thirdx");
    check("two<ctrl-j>lines↑", &[], "two\nlines");
    check("two<ctrl-j>lines↑↑", &[], "third");
    check("two<ctrl-j>lines↑↑↓", &[], "two\nlines");
    check("<ctrl-r>sec", &[], "second one");
    check("<ctrl-r>sec⏎", &[], "second one");
    check("<ctrl-r>sec⏎⏎", &["say second one"], "");
    check("draft<ctrl-r>sec⎋", &[], "draft");
    check("draft<ctrl-r>nothing⎋", &[], "draft");
    check("<ctrl-r>ir", &[], "third");
    check("<ctrl-r>ir<ctrl-r>", &[], "first");
    check("<ctrl-r>ir<ctrl-r><ctrl-s>", &[], "third");
    check("<ctrl-r>secx⌫", &[], "second one");
    check("<ctrl-r>sec<ctrl-a>x", &[], "xsecond one");
    check("<ctrl-r>FIR", &[], "");
}

#[test]
fn there_is_nothing_to_open_on_an_empty_page() {
    let mut stage = TestApp::new();
    stage.keys("⇥a").expect(&[], "a");
    assert_eq!(stage.app.focus, AppFocus::Editor);
}
