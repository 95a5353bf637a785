//! Sending, commands, and queued messages.

use super::*;

#[test]
fn messages_are_sent() {
    fn check(script: &str, effects: &[&str], text: &str) {
        TestApp::new().keys(script).expect(effects, text);
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
fn commands_run_here_or_become_requests() {
    fn check(script: &str, effects: &[&str]) {
        TestApp::new().keys(script).expect(effects, "");
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
fn commands_open_overlays() {
    for script in ["/help⏎", "/cost⏎", "/sessions⏎", "/jobs⏎", "/model⏎"] {
        let mut test = TestApp::new();
        test.keys(script);
        assert!(test.app.overlay.is_some(), "{script}");
        test.keys("<ctrl-c>");
        assert!(test.app.overlay.is_none(), "{script}");
    }
}

#[test]
fn lists_are_shown_only_if_requested() {
    let files = EventKind::Files {
        paths: vec!["a".to_owned()],
        is_cut: false,
    };
    let differs = EventKind::Differs {
        changes: Vec::new(),
        left_out: 0,
    };
    for (script, kind) in [("/files⏎", files), ("/diff⏎", differs)] {
        let mut test = TestApp::new();
        test.event(kind.clone());
        assert!(test.app.overlay.is_none(), "{script}");
        test.keys(script).event(kind);
        assert!(test.app.overlay.is_some(), "{script}");
    }
}

#[test]
fn a_refused_command_stays_in_the_editor() {
    fn check(mut test: TestApp, script: &str, text: &str) {
        test.keys(script).expect(&[], text);
        assert!(!test.app.transcript.is_empty(), "it says why: {script}");
    }
    check(TestApp::new(), "/hlep⏎", "/hlep");
    check(TestApp::new(), "/undo it⏎", "/undo it");
    check(TestApp::new(), "/image⏎", "/image");
    for command in ["/undo", "/redo", "/fork", "/clear", "/compact", "/continue"] {
        check(TestApp::busy(), &format!("{command}⏎"), command);
    }
}

#[test]
fn messages_are_queued_during_a_turn() {
    let mut test = TestApp::busy();
    test.keys("one⏎two⏎three").expect(&[], "three");
    assert_eq!(test.queued(), ["one", "two"]);
    test.event(ended(1, Outcome::Done))
        .expect(&["say one"], "three");
    // The end of an unknown turn counts as the end of the requested one.
    test.event(started(2, "one")).event(ended(2, Outcome::Done));
    test.expect(&["say two"], "three");
    assert!(test.queued().is_empty());
}

#[test]
fn unsent_messages_return_to_the_editor() {
    let failed = Outcome::Failed {
        reason: "no".to_owned(),
    };
    for outcome in [Outcome::Interrupted, failed] {
        let mut test = TestApp::busy();
        test.keys("one⏎two⏎three").event(ended(1, outcome));
        test.expect(&[], "one\ntwo\nthree");
        assert!(test.queued().is_empty());
    }
}

#[test]
fn a_second_message_is_queued_before_the_turn_starts() {
    let mut test = TestApp::new();
    test.keys("one⏎two⏎").expect(&["say one"], "");
    assert_eq!(test.queued(), ["two"]);
}

#[test]
fn a_refused_message_is_not_lost() {
    let mut test = TestApp::new();
    test.keys("one⏎two⏎thr").event(EventKind::CommandRefused {
        reason: "no".to_owned(),
    });
    test.expect(&["say one"], "one\ntwo\nthr");
    assert!(!test.app.is_busy());
}

#[test]
fn up_takes_back_a_queued_message() {
    let mut test = TestApp::busy();
    test.keys("one⏎two⏎↑").expect(&[], "two");
    assert_eq!(test.queued(), ["one"]);
    test.keys("<ctrl-u>new⏎").expect(&[], "");
    assert_eq!(test.queued(), ["one", "new"]);
}

#[test]
fn images_are_sent_with_the_message() {
    let mut test = TestApp::new();
    test.keys("see ").paste("/tmp/a.png");
    test.expect(&["Attach(\"/tmp/a.png\")"], "see /tmp/a.png");
    test.keys(" now").notice(attached("/tmp/a.png"));
    test.expect(&[], "see [image: a.png] now");
    assert_eq!(test.shown(), ["see [image: a.png 120 kB] now"]);
    test.keys("⏎")
        .expect(&["say see [image: a.png] now with 1"], "");
}

#[test]
fn a_message_waits_for_its_images() {
    let mut test = TestApp::new();
    test.paste("'/tmp/a b.png' /tmp/c.png").keys(" ?⏎");
    let asked = ["Attach(\"/tmp/a b.png\")", "Attach(\"/tmp/c.png\")"];
    test.expect(&asked, "'/tmp/a b.png' /tmp/c.png ?");
    test.notice(attached("/private/tmp/c.png"));
    test.expect(&[], "'/tmp/a b.png' [image: c.png] ?");
    test.notice(attached("/tmp/a b.png"));
    test.expect(&["say [image: a b.png] [image: c.png] ? with 2"], "");
}

#[test]
fn an_unreadable_image_stays_a_path_and_nothing_is_sent() {
    let mut test = TestApp::new();
    test.paste("/tmp/a.png")
        .keys("⏎")
        .notice(failed("cannot read `/tmp/a.png`"));
    test.expect(&["Attach(\"/tmp/a.png\")"], "/tmp/a.png");
    test.keys("⏎").expect(&["say /tmp/a.png"], "");
}

#[test]
fn an_image_without_placeholder_is_dropped() {
    let mut test = TestApp::new();
    test.paste("/tmp/a.png")
        .keys("<ctrl-c>ok")
        .notice(attached("/tmp/a.png"));
    test.expect(&["Attach(\"/tmp/a.png\")"], "ok");
}

#[test]
fn the_image_command_inserts_at_the_cursor() {
    let mut test = TestApp::new();
    test.keys("/image a.png⏎")
        .notice(attached("a.png"))
        .keys(" what?⏎");
    test.expect(
        &["Attach(\"a.png\")", "say [image: a.png] what? with 1"],
        "",
    );
}

#[test]
fn nothing_is_sent_after_the_agent_ended() {
    let mut test = TestApp::busy();
    test.keys("one⏎two").notice(UiNotice::Lost {
        what: "the sandbox is gone".to_owned(),
        hint: None,
    });
    test.expect(&[], "one\ntwo")
        .keys("⏎")
        .expect(&[], "one\ntwo");
    test.keys("<ctrl-c>/undo⏎").expect(&[], "/undo");
    test.keys("<ctrl-c>/clear⏎").expect(&["New"], "");
    test.notice(opened_local(Vec::new()))
        .keys("three⏎")
        .expect(&["say three"], "");
}
