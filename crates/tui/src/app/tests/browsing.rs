//! Browsing the page, and searching the page and the history.

use protocol::{CallKind, CallSummary};

use super::*;
use crate::app::AppFocus;

fn app_with_turn() -> TestApp {
    let mut test = TestApp::new();
    test.event(started(1, "needle one"));
    test.event(EventKind::ToolStarted {
        call: "c1".into(),
        name: "bash".to_owned(),
        input: serde_json::json!({"command": "ls"}),
        summary: Box::new(CallSummary::new(CallKind::Command, "$", "ls")),
    });
    test.event(EventKind::ToolEnded {
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
    test.event(ended(1, Outcome::Done));
    test
}

#[test]
fn unbound_characters_on_the_page_are_typed() {
    fn check(script: &str, focus: AppFocus, text: &str) {
        let mut test = app_with_turn();
        test.keys(script).expect(&[], text);
        assert_eq!(test.app.focus, focus, "{script}");
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
    let mut test = app_with_turn();
    test.keys("⇥").paste("y n q").expect(&[], "y n q");
    assert_eq!(test.app.focus, AppFocus::Editor);
    test.keys("⏎<ctrl-r>").paste("one\ntwo");
    test.expect(&["say y n q"], "one\ntwo");
    assert_eq!(test.app.focus, AppFocus::Editor);
}

#[test]
fn an_entry_is_copied() {
    let mut test = app_with_turn();
    test.keys("⇥y");
    assert!(test.effects[0].starts_with("Copy("), "{:?}", test.effects);
}

#[test]
fn the_page_is_searched() {
    fn check(script: &str, matches: Option<usize>, focus: AppFocus) {
        let mut test = app_with_turn();
        test.keys(script).expect(&[], "");
        let found = test.app.transcript.match_position().map(|(_, all)| all);
        assert_eq!((found, &test.app.focus), (matches, &focus), "{script}");
    }
    let search = |query: &str| AppFocus::Search {
        query: query.to_owned(),
    };
    check("<ctrl-f>needle", Some(2), search("needle"));
    check("<ctrl-f>needle⏎", Some(2), AppFocus::Browse);
    check("<ctrl-f>needle⏎nN", Some(2), AppFocus::Browse);
    check("⇥/needle⏎", Some(2), AppFocus::Browse);
    check("/search needle⏎", Some(2), AppFocus::Browse);
    check("/search⏎needle o", Some(1), search("needle o"));
    check("<ctrl-f>needle ox⌫", Some(1), search("needle o"));
    check("<ctrl-f>nothing⏎", None, AppFocus::Editor);
    check("<ctrl-f>needle⎋", None, AppFocus::Editor);
    check("<ctrl-f>needle⏎⎋", None, AppFocus::Editor);
}

#[test]
fn sent_messages_are_recalled() {
    fn check(script: &str, effects: &[&str], text: &str) {
        let mut test = TestApp::new();
        for words in ["first", "second one", "third"] {
            test.keys(words).keys("⏎").event(started(1, words));
            test.event(ended(1, Outcome::Done));
        }
        test.effects.clear();
        test.keys(script).expect(effects, text);
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
fn browsing_an_empty_page_does_nothing() {
    let mut test = TestApp::new();
    test.keys("⇥a").expect(&[], "a");
    assert_eq!(test.app.focus, AppFocus::Editor);
}
