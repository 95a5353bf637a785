//! Notices that change the current session.

use super::*;
use crate::app::AppFocus;

#[test]
fn another_session_keeps_what_is_being_written() {
    let mut stage = TestApp::new();
    stage
        .hear(opened_local(Vec::new()))
        .event(started(1, "begin"));
    stage
        .keys("waits⏎draft")
        .hear(opened_local(vec![started(1, "old words")]));
    stage.expect(&[], "draft");
    assert!(stage.queued().is_empty());
    assert!(!stage.app.is_busy());
    // The queued message and the session's prompts are both in the history, the newest first.
    stage.keys("<ctrl-u>↑").expect(&[], "waits");
    stage.keys("↑").expect(&[], "old words");
}

#[test]
fn messages_may_be_written_before_there_is_anybody_to_read_them() {
    let mut stage = TestApp::new();
    stage.keys("one⏎two⏎three").hear(opened_local(Vec::new()));
    stage.expect(&["say one"], "three");
    assert_eq!(stage.queued(), ["two"]);
    stage
        .event(started(1, "one"))
        .event(ended(1, Outcome::Done));
    stage.expect(&["say two"], "three");
}

#[test]
fn no_list_pulls_the_ground_from_under_a_turn() {
    let mut stage = TestApp::busy();
    stage
        .keys("/jobs⏎")
        .hear(UiNotice::Jobs(vec![crate::port::JobRow {
            job: "0193a1b2-0000-7000-8000-000000000001".parse().unwrap(),
            title: "build".to_owned(),
            state: "running".to_owned(),
            changed: Timestamp::UNIX_EPOCH,
        }]));
    stage.wants.clear();
    stage.keys("⏎").expect(&[], "");
    assert!(stage.app.overlay.is_none());
}

#[test]
fn another_session_ends_looking_at_the_old_one() {
    for script in ["<ctrl-f>begin", "begin⏎<ctrl-r>beg", "/help⏎"] {
        let mut stage = TestApp::new();
        stage.keys(script).hear(opened_local(Vec::new()));
        assert_eq!(stage.app.focus, AppFocus::Editor, "{script}");
        assert!(stage.app.overlay.is_none(), "{script}");
    }
}

#[test]
fn a_turn_goes_on_only_on_a_server() {
    let job = SessionOrigin::Job {
        job: "0193a1b2-0000-7000-8000-000000000001".parse().unwrap(),
        server: "https://example.com".to_owned(),
    };
    let mine = SessionOrigin::Here {
        session: Some(session()),
    };
    for (origin, is_busy) in [(job, true), (mine, false)] {
        let mut stage = TestApp::new();
        stage.hear(opened(origin, vec![started(1, "words")]));
        assert_eq!(stage.app.is_busy(), is_busy);
    }
}

#[test]
fn nothing_wakes_the_terminal_when_nothing_happens() {
    let mut stage = TestApp::new();
    assert_eq!(stage.app.wakes_at(), None);
    stage.event(started(1, "x"));
    let wakes = stage.app.wakes_at().unwrap();
    assert!(wakes > stage.now);
    stage.event(ended(1, Outcome::Done));
    assert_eq!(stage.app.wakes_at(), None);
}

#[test]
fn what_was_written_elsewhere_is_taken() {
    let mut stage = TestApp::new();
    stage
        .keys("a")
        .input(AppInput::Edited("one\ntwo\n".to_owned()));
    stage.expect(&[], "one\ntwo");
}

#[test]
fn a_question_takes_no_letter_of_a_message() {
    let mut stage = TestApp::busy();
    stage.event(EventKind::Asked {
        question: protocol::Question {
            number: 1,
            what: "connect to pypi.org:443".to_owned(),
            why: "no rule allows it".to_owned(),
            subject: protocol::Subject::Host {
                host: "pypi.org".to_owned(),
            },
        },
    });
    stage.keys("yes").expect(&[], "yes");
    stage.input(AppInput::Shown).wait(1_000);
    stage.keys("y").expect(&[], "yesy");
}
