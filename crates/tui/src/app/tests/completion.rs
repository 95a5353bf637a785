//! Completion.

use super::*;
use crate::port::{JobRow, SessionRow};

fn files(paths: &[&str]) -> EventKind {
    EventKind::Files {
        paths: paths.iter().map(|path| (*path).to_owned()).collect(),
        is_cut: false,
    }
}

fn with_files() -> TestApp {
    let mut test = TestApp::new();
    test.notice(opened_local(Vec::new()));
    test.event(files(&["src/main.rs", "src/app.rs", "shot.png"]));
    test
}

#[test]
fn commands_are_completed() {
    fn check(script: &str, effects: &[&str], text: &str) {
        TestApp::new().keys(script).expect(effects, text);
    }
    check("/und", &[], "/und");
    check("/und⇥", &[], "/undo ");
    check("/und⏎", &["Undo"], "");
    check("/unf⎋⏎", &[], "/unf");
    check("/co↓⇥", &[], "/cost ");
    check("/co↑⇥", &[], "/copy ");
    check("/loa⏎", &["Sessions { words: \"\" }"], "/load ");
    check("/mod⏎", &["Models"], "");
    check("/mod⇥", &["Models"], "/model ");
    check("/quit⏎", &["Quit", "Quit"], "");
    check("/undo⇥⏎", &["Undo"], "");
}

#[test]
fn a_closed_completion_stays_closed() {
    let mut test = TestApp::new();
    test.keys("/u⎋n");
    assert!(test.insertions().is_empty());
    test.keys("<ctrl-u>/u");
    assert_eq!(test.insertions()[0], "/undo");
}

#[test]
fn files_are_requested_once_and_again_after_a_turn() {
    let mut test = TestApp::new();
    test.keys("@a @b").expect(&["ListFiles"], "@a @b");
    test.event(files(&["b"]));
    assert_eq!(test.insertions(), ["@b "]);
    test.keys("<ctrl-c>@").expect(&[], "@");
    test.event(started(1, "x")).event(ended(1, Outcome::Done));
    test.keys("⌫@").expect(&["ListFiles"], "@");
}

#[test]
fn files_are_completed() {
    fn check(script: &str, effects: &[&str], text: &str) {
        let mut test = with_files();
        test.keys("@⌫").effects.clear();
        test.keys(script).expect(effects, text);
    }
    check("see @mai⇥", &[], "see @src/main.rs ");
    check("see @mai⏎", &[], "see @src/main.rs ");
    check("see @mai⏎⏎", &["say see @src/main.rs"], "");
    check("see @src/main.rs⏎", &["say see @src/main.rs"], "");
    check("@s↓⇥and", &[], "@src/app.rs and");
    check("@zzz⏎", &["say @zzz"], "");
    check("a@mai⇥", &[], "a@mai");
    check("@mai⎋⏎", &["say @mai"], "");
}

#[test]
fn workspace_images_are_attached() {
    let mut test = with_files();
    test.keys("@⌫").effects.clear();
    test.keys("see @sho⇥");
    test.expect(&["Attach(\"/home/me/project/shot.png\")"], "see @shot.png ");
    test.notice(attached("/home/me/project/shot.png"));
    test.expect(&[], "see [image: shot.png] ");
    // A path typed by hand is found when the message is sent.
    test.keys("<ctrl-c>@shot.png ?⏎");
    test.expect(&["Attach(\"/home/me/project/shot.png\")"], "@shot.png ?");
    test.notice(attached("/home/me/project/shot.png"));
    test.expect(&["say [image: shot.png] ? with 1"], "");
}

#[test]
fn arguments_are_completed() {
    let row = SessionRow {
        session: session(),
        changed: Timestamp::UNIX_EPOCH,
        title: "fix the parser".to_owned(),
        workspace: String::new(),
        model: String::new(),
        turns: 1,
        cost: None,
        outcome: None,
        excerpt: None,
    };
    let sessions = UiNotice::Sessions {
        words: String::new(),
        rows: vec![row],
    };
    let mut test = TestApp::new();
    test.keys("/load ").notice(sessions).effects.clear();
    assert_eq!(test.insertions(), ["20260131-174502-k3fd"]);
    test.keys("parser⏎");
    test.expect(&["Load(\"20260131-174502-k3fd\")"], "");

    test.keys("/model ");
    test.notice(UiNotice::Models(vec!["one".to_owned(), "two".to_owned()]));
    test.keys("t⏎")
        .expect(&["Models", "UseModel { name: \"two\" }"], "");

    let job: protocol::job::JobId = "0193a1b2-0000-7000-8000-000000000001".parse().unwrap();
    test.keys("/attach ").notice(UiNotice::Jobs(vec![JobRow {
        job,
        title: "build".to_owned(),
        state: "running".to_owned(),
        changed: Timestamp::UNIX_EPOCH,
    }]));
    let follow = format!("Follow({:?})", job.to_string());
    test.keys("run⏎").expect(&["Jobs", &follow], "");
}

#[test]
fn the_selected_completion_wraps_around() {
    let mut test = with_files();
    test.keys("@s↑");
    let open = test.app.completion().unwrap();
    assert_eq!(open.selected, open.rows.len() - 1);
    test.keys("↓");
    assert_eq!(test.app.completion().unwrap().selected, 0);
}

#[test]
fn many_files_are_searched_between_key_presses() {
    let mut paths: Vec<String> = (0..20_000).map(|file| format!("e/{file}")).collect();
    paths.push("needle".to_owned());
    let mut test = TestApp::new();
    test.keys("@").event(EventKind::Files {
        paths,
        is_cut: false,
    });
    test.keys("e↓");
    let selected = |test: &TestApp| {
        let open = test.app.completion().unwrap();
        open.rows[open.selected].label.clone()
    };
    let before = selected(&test);
    let mut steps = 0;
    while test.app.wakes_at().is_some() {
        test.wait(0);
        steps += 1;
    }
    assert!(steps > 1);
    assert_eq!(selected(&test), before, "what is chosen stays so");
    test.keys("edle");
    assert!(test.insertions().is_empty() || test.app.wakes_at().is_some());
    while test.app.wakes_at().is_some() {
        test.wait(0);
    }
    assert_eq!(test.insertions(), ["@needle "]);
}
