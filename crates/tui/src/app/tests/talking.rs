//! Sending, commands, and queued messages.

use super::*;

#[test]
fn what_is_sent() {
    fn check(script: &str, wants: &[&str], written: &str) {
        TestApp::new().keys(script).expect(wants, written);
    }
    check("hello⏎", &["say hello"], "");
    check("⏎", &[], "");
    check("   ⏎", &[], "   ");
    check(
        "a<alt-enter>b<shift-enter>c<ctrl-j>d⏎",
        &["say a\nb\nc\nd"],
        "",
    );
    check("a\\⏎b⏎", &["say a\nb"], "");
    check("a\\⏎", &[], "a\n");
    check("trailing  ⏎", &["say trailing"], "");
    check("//etc is a folder⏎", &["say /etc is a folder"], "");
    check(" /etc⏎", &["say /etc"], "");
    check("/etc/hosts⏎", &["say /etc/hosts"], "");
    check("  indented⏎", &["say   indented"], "");
}

#[test]
fn commands_are_done_here_or_asked_for() {
    fn check(script: &str, wants: &[&str]) {
        TestApp::new().keys(script).expect(wants, "");
    }
    check("/clear⏎", &["New"]);
    check("/load ab⏎", &["Sessions { words: \"\" }", "Load(\"ab\")"]);
    check("/fork⏎", &["Fork"]);
    check("/undo⏎", &["Undo"]);
    check("/redo⏎", &["Redo"]);
    check("/continue⏎", &["Continue"]);
    check("/compact⏎", &["Compact"]);
    check("/diff⏎", &["Diff"]);
    check("/files⏎", &["ListFiles"]);
    check("/model x⏎", &["Models", "UseModel { name: \"x\" }"]);
    check("/allow pypi.org⏎", &["AllowHost { host: \"pypi.org\" }"]);
    check("/export⏎", &["Export(None)"]);
    check("/export a b.md⏎", &["Export(Some(\"a b.md\"))"]);
    check("/attach 7⏎", &["Jobs", "Follow(\"7\")"]);
    check("/image /tmp/a.png⏎", &["Attach(\"/tmp/a.png\")"]);
    check("/quit⏎", &["Quit", "Quit"]);
}

#[test]
fn commands_that_show_something_stand_in_front_of_the_page() {
    for script in ["/help⏎", "/cost⏎", "/sessions⏎", "/jobs⏎", "/model⏎"] {
        let mut stage = TestApp::new();
        stage.keys(script);
        assert!(stage.app.overlay.is_some(), "{script}");
        stage.keys("<ctrl-c>");
        assert!(stage.app.overlay.is_none(), "{script}");
    }
}

#[test]
fn lists_are_shown_only_to_who_asked_for_them() {
    let files = EventKind::Files {
        paths: vec!["a".to_owned()],
        is_cut: false,
    };
    let differs = EventKind::Differs {
        changes: Vec::new(),
        left_out: 0,
    };
    for (script, kind) in [("/files⏎", files), ("/diff⏎", differs)] {
        let mut stage = TestApp::new();
        stage.event(kind.clone());
        assert!(stage.app.overlay.is_none(), "{script}");
        stage.keys(script).event(kind);
        assert!(stage.app.overlay.is_some(), "{script}");
    }
}

#[test]
fn a_command_that_cannot_be_done_stays_in_the_editor() {
    fn check(mut stage: TestApp, script: &str, written: &str) {
        stage.keys(script).expect(&[], written);
        assert!(!stage.app.transcript.is_empty(), "it says why: {script}");
    }
    check(TestApp::new(), "/hlep⏎", "/hlep");
    check(TestApp::new(), "/undo it⏎", "/undo it");
    check(TestApp::new(), "/image⏎", "/image");
    for command in ["/undo", "/redo", "/fork", "/clear", "/compact", "/continue"] {
        check(TestApp::busy(), &format!("{command}⏎"), command);
    }
}

#[test]
fn messages_wait_while_the_agent_works() {
    let mut stage = TestApp::busy();
    stage.keys("one⏎two⏎three").expect(&[], "three");
    assert_eq!(stage.queued(), ["one", "two"]);
    stage
        .event(ended(1, Outcome::Done))
        .expect(&["say one"], "three");
    // The end of an unknown turn counts as the end of the requested one.
    stage
        .event(started(2, "one"))
        .event(ended(2, Outcome::Done));
    stage.expect(&["say two"], "three");
    assert!(stage.queued().is_empty());
}

#[test]
fn what_was_not_sent_goes_back_into_the_editor() {
    let failed = Outcome::Failed {
        reason: "no".to_owned(),
    };
    for outcome in [Outcome::Interrupted, failed] {
        let mut stage = TestApp::busy();
        stage.keys("one⏎two⏎three").event(ended(1, outcome));
        stage.expect(&[], "one\ntwo\nthree");
        assert!(stage.queued().is_empty());
    }
}

#[test]
fn a_second_message_waits_before_the_first_is_taken_up() {
    let mut stage = TestApp::new();
    stage.keys("one⏎two⏎").expect(&["say one"], "");
    assert_eq!(stage.queued(), ["two"]);
}

#[test]
fn a_refused_message_is_not_lost() {
    let mut stage = TestApp::new();
    stage.keys("one⏎two⏎thr").event(EventKind::CommandRefused {
        reason: "no".to_owned(),
    });
    stage.expect(&["say one"], "one\ntwo\nthr");
    assert!(!stage.app.is_busy());
}

#[test]
fn a_message_that_waits_is_taken_back_by_up() {
    let mut stage = TestApp::busy();
    stage.keys("one⏎two⏎↑").expect(&[], "two");
    assert_eq!(stage.queued(), ["one"]);
    stage.keys("<ctrl-u>new⏎").expect(&[], "");
    assert_eq!(stage.queued(), ["one", "new"]);
}

#[test]
fn pictures_go_with_the_message() {
    let mut stage = TestApp::new();
    stage.keys("see ").paste("/tmp/a.png");
    stage.expect(&["Attach(\"/tmp/a.png\")"], "see /tmp/a.png");
    stage.keys(" now").hear(attached("/tmp/a.png"));
    stage.expect(&[], "see [image: a.png] now");
    assert_eq!(stage.shown(), ["see [image: a.png 120 kB] now"]);
    stage
        .keys("⏎")
        .expect(&["say see [image: a.png] now with 1"], "");
}

#[test]
fn a_message_waits_for_its_pictures() {
    let mut stage = TestApp::new();
    stage.paste("'/tmp/a b.png' /tmp/c.png").keys(" ?⏎");
    let asked = ["Attach(\"/tmp/a b.png\")", "Attach(\"/tmp/c.png\")"];
    stage.expect(&asked, "'/tmp/a b.png' /tmp/c.png ?");
    stage.hear(attached("/private/tmp/c.png"));
    stage.expect(&[], "'/tmp/a b.png' [image: c.png] ?");
    stage.hear(attached("/tmp/a b.png"));
    stage.expect(&["say [image: a b.png] [image: c.png] ? with 2"], "");
}

#[test]
fn a_picture_that_cannot_be_read_stays_as_its_path_and_nothing_is_sent() {
    let mut stage = TestApp::new();
    stage
        .paste("/tmp/a.png")
        .keys("⏎")
        .hear(failed("cannot read `/tmp/a.png`"));
    stage.expect(&["Attach(\"/tmp/a.png\")"], "/tmp/a.png");
    stage.keys("⏎").expect(&["say /tmp/a.png"], "");
}

#[test]
fn a_picture_that_nobody_wants_any_more_is_left_out() {
    let mut stage = TestApp::new();
    stage
        .paste("/tmp/a.png")
        .keys("<ctrl-c>ok")
        .hear(attached("/tmp/a.png"));
    stage.expect(&["Attach(\"/tmp/a.png\")"], "ok");
}

#[test]
fn a_picture_by_command_comes_at_the_cursor() {
    let mut stage = TestApp::new();
    stage
        .keys("/image a.png⏎")
        .hear(attached("a.png"))
        .keys(" what?⏎");
    stage.expect(
        &["Attach(\"a.png\")", "say [image: a.png] what? with 1"],
        "",
    );
}

#[test]
fn nothing_is_sent_to_an_agent_that_has_ended() {
    let mut stage = TestApp::busy();
    stage.keys("one⏎two").hear(UiNotice::Lost {
        what: "the sandbox is gone".to_owned(),
        hint: None,
    });
    stage
        .expect(&[], "one\ntwo")
        .keys("⏎")
        .expect(&[], "one\ntwo");
    stage.keys("<ctrl-c>/undo⏎").expect(&[], "/undo");
    stage.keys("<ctrl-c>/clear⏎").expect(&["New"], "");
    stage
        .hear(opened_local(Vec::new()))
        .keys("three⏎")
        .expect(&["say three"], "");
}
