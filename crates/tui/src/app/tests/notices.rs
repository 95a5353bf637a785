//! Notices that change the current session.

use super::*;
use crate::app::AppFocus;

#[test]
fn opening_a_session_keeps_the_draft() {
    let mut test = TestApp::new();
    test.notice(opened_local(Vec::new()))
        .event(started(1, "begin"));
    test.keys("waits⏎draft")
        .notice(opened_local(vec![started(1, "old words")]));
    test.expect(&[], "draft");
    assert!(test.queued().is_empty());
    assert!(!test.app.is_busy());
    // The queued message and the session's prompts are both in the history, the newest first.
    test.keys("<ctrl-u>↑").expect(&[], "waits");
    test.keys("↑").expect(&[], "old words");
}

#[test]
fn messages_can_be_typed_before_the_agent_starts() {
    let mut test = TestApp::new();
    test.keys("one⏎two⏎three").notice(opened_local(Vec::new()));
    test.expect(&["say one"], "three");
    assert_eq!(test.queued(), ["two"]);
    test.event(started(1, "one")).event(ended(1, Outcome::Done));
    test.expect(&["say two"], "three");
}

#[test]
fn opening_a_session_from_a_list_during_a_turn_is_refused() {
    let mut test = TestApp::busy();
    test.keys("/jobs⏎")
        .notice(UiNotice::Jobs(vec![crate::port::JobRow {
            job: "0193a1b2-0000-7000-8000-000000000001".parse().unwrap(),
            title: "build".to_owned(),
            state: "running".to_owned(),
            changed: Timestamp::UNIX_EPOCH,
        }]));
    test.effects.clear();
    test.keys("⏎").expect(&[], "");
    assert!(test.app.overlay.is_none());
}

#[test]
fn opening_a_session_ends_browsing() {
    for script in ["<ctrl-f>begin", "begin⏎<ctrl-r>beg", "/help⏎"] {
        let mut test = TestApp::new();
        test.keys(script).notice(opened_local(Vec::new()));
        assert_eq!(test.app.focus, AppFocus::Editor, "{script}");
        assert!(test.app.overlay.is_none(), "{script}");
    }
}

#[test]
fn leaving_a_running_job_does_not_stop_it() {
    let job = SessionOrigin::Job {
        job: "0193a1b2-0000-7000-8000-000000000001".parse().unwrap(),
        server: "https://example.com".to_owned(),
    };
    let mine = SessionOrigin::Here {
        session: Some(session()),
    };
    for (origin, is_busy) in [(job, true), (mine, false)] {
        let mut test = TestApp::new();
        test.notice(opened(origin, vec![started(1, "words")]));
        assert_eq!(test.app.is_busy(), is_busy);
    }
}

#[test]
fn an_idle_ui_never_wakes() {
    let mut test = TestApp::new();
    assert_eq!(test.app.wakes_at(), None);
    test.event(started(1, "x"));
    let wakes = test.app.wakes_at().unwrap();
    assert!(wakes > test.now);
    test.event(ended(1, Outcome::Done));
    assert_eq!(test.app.wakes_at(), None);
}

#[test]
fn text_from_the_external_editor_is_taken() {
    let mut test = TestApp::new();
    test.keys("a")
        .input(AppInput::Edited("one\ntwo\n".to_owned()));
    test.expect(&[], "one\ntwo");
}

#[test]
fn a_question_takes_no_character_of_a_message() {
    let mut test = TestApp::busy();
    test.event(EventKind::Asked {
        question: protocol::Question {
            number: 1,
            what: "connect to pypi.org:443".to_owned(),
            why: "no rule allows it".to_owned(),
            subject: protocol::Subject::Host {
                host: "pypi.org".to_owned(),
            },
        },
    });
    test.keys("yes").expect(&[], "yes");
    test.input(AppInput::Shown).wait(1_000);
    test.keys("y").expect(&[], "yesy");
}
