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
    let mut stage = TestApp::new();
    stage.hear(opened_local(Vec::new()));
    stage.event(files(&["src/main.rs", "src/app.rs", "shot.png"]));
    stage
}

#[test]
fn commands_are_completed() {
    fn check(script: &str, wants: &[&str], written: &str) {
        TestApp::new().keys(script).expect(wants, written);
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
fn completion_that_was_closed_stays_closed() {
    let mut stage = TestApp::new();
    stage.keys("/u⎋n");
    assert!(stage.offered().is_empty());
    stage.keys("<ctrl-u>/u");
    assert_eq!(stage.offered()[0], "/undo");
}

#[test]
fn files_are_asked_for_once_and_again_after_a_turn() {
    let mut stage = TestApp::new();
    stage.keys("@a @b").expect(&["ListFiles"], "@a @b");
    stage.event(files(&["b"]));
    assert_eq!(stage.offered(), ["@b "]);
    stage.keys("<ctrl-c>@").expect(&[], "@");
    stage.event(started(1, "x")).event(ended(1, Outcome::Done));
    stage.keys("⌫@").expect(&["ListFiles"], "@");
}

#[test]
fn files_are_completed() {
    fn check(script: &str, wants: &[&str], written: &str) {
        let mut stage = with_files();
        stage.keys("@⌫").wants.clear();
        stage.keys(script).expect(wants, written);
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
fn pictures_of_the_workspace_are_attached() {
    let mut stage = with_files();
    stage.keys("@⌫").wants.clear();
    stage.keys("see @sho⇥");
    stage.expect(&["Attach(\"/home/me/project/shot.png\")"], "see @shot.png ");
    stage.hear(attached("/home/me/project/shot.png"));
    stage.expect(&[], "see [image: shot.png] ");
    // A path typed by hand is found when the message is sent.
    stage.keys("<ctrl-c>@shot.png ?⏎");
    stage.expect(&["Attach(\"/home/me/project/shot.png\")"], "@shot.png ?");
    stage.hear(attached("/home/me/project/shot.png"));
    stage.expect(&["say [image: shot.png] ? with 1"], "");
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
    let mut stage = TestApp::new();
    stage.keys("/load ").hear(sessions).wants.clear();
    assert_eq!(stage.offered(), ["20260131-174502-k3fd"]);
    stage.keys("parser⏎");
    stage.expect(&["Load(\"20260131-174502-k3fd\")"], "");

    stage.keys("/model ");
    stage.hear(UiNotice::Models(vec!["one".to_owned(), "two".to_owned()]));
    stage
        .keys("t⏎")
        .expect(&["Models", "UseModel { name: \"two\" }"], "");

    let job: protocol::job::JobId = "0193a1b2-0000-7000-8000-000000000001".parse().unwrap();
    stage.keys("/attach ").hear(UiNotice::Jobs(vec![JobRow {
        job,
        title: "build".to_owned(),
        state: "running".to_owned(),
        changed: Timestamp::UNIX_EPOCH,
    }]));
    let follow = format!("Follow({:?})", job.to_string());
    stage.keys("run⏎").expect(&["Jobs", &follow], "");
}

#[test]
fn keys_of_the_popup_move_in_a_circle() {
    let mut stage = with_files();
    stage.keys("@s↑");
    let open = stage.app.completion().unwrap();
    assert_eq!(open.selected, open.rows.len() - 1);
    stage.keys("↓");
    assert_eq!(stage.app.completion().unwrap().selected, 0);
}

#[test]
fn many_files_are_looked_at_between_the_keys() {
    let mut paths: Vec<String> = (0..20_000).map(|file| format!("e/{file}")).collect();
    paths.push("needle".to_owned());
    let mut stage = TestApp::new();
    stage.keys("@").event(EventKind::Files {
        paths,
        is_cut: false,
    });
    stage.keys("e↓");
    let chosen = |stage: &TestApp| {
        let open = stage.app.completion().unwrap();
        open.rows[open.selected].label.clone()
    };
    let before = chosen(&stage);
    let mut steps = 0;
    while stage.app.wakes_at().is_some() {
        stage.wait(0);
        steps += 1;
    }
    assert!(steps > 1);
    assert_eq!(chosen(&stage), before, "what is chosen stays so");
    stage.keys("edle");
    assert!(stage.offered().is_empty() || stage.app.wakes_at().is_some());
    while stage.app.wakes_at().is_some() {
        stage.wait(0);
    }
    assert_eq!(stage.offered(), ["@needle "]);
}
