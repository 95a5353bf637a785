//! Every screen at several sizes.

use crossterm::event::{KeyCode, KeyModifiers};
use jiff::SignedDuration;
use protocol::{AgentCommand, Change, EventKind, SessionId};

use super::test_screen::TestScreen;
use crate::port::{
    JobRow, OpenedSession, SessionOrigin, SessionPreview, SessionRow, UiNotice, UiRequest,
};
use crate::samples::{
    self, background, ended, question, ready, replied, spending, started, turn, usage, working_end,
    working_turn,
};
use crate::theme::ColourScheme;

/// Sizes at which each screen is drawn.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];
const LARGE: (u16, u16) = (300, 100);
const TINY: (u16, u16) = (20, 5);

fn snapshot_sizes(name: &str, sizes: &[(u16, u16)], live: impl Fn(&mut TestScreen)) {
    for (width, height) in sizes {
        let mut screen = TestScreen::new(ColourScheme::Dark, *width, *height);
        live(&mut screen);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), screen.snapshot());
    }
}

fn all_sizes() -> Vec<(u16, u16)> {
    [&SIZES[..], &[LARGE, TINY]].concat()
}

fn with_ready_agent(screen: &mut TestScreen) {
    screen.receive([ready("native", &[], true)]);
}

fn with_finished_turn(screen: &mut TestScreen) {
    screen.receive(working_turn());
    screen.receive(working_end());
    screen.wait(10);
}

#[test]
fn start_screens() {
    snapshot_sizes("start_early", &SIZES, |_| {});
    snapshot_sizes("start", &all_sizes(), with_ready_agent);
    snapshot_sizes("start_no_sandbox", &SIZES, |screen| {
        screen.receive([ready("none", &[], false)]);
    });
}

#[test]
fn a_turn() {
    snapshot_sizes("working", &all_sizes(), |screen| {
        screen.receive(working_turn());
        screen.wait(7_300);
    });
    snapshot_sizes("worked", &all_sizes(), with_finished_turn);
    snapshot_sizes("no_sandbox", &[(80, 24)], |screen| {
        with_finished_turn(screen);
        screen.receive([ready("none", &[], false)]);
    });
    snapshot_sizes("retrying", &[(80, 24)], |screen| {
        screen.receive([
            ready("native", &[], false),
            started(),
            turn(1, "hello"),
            EventKind::Retrying {
                attempt: 2,
                wait_ms: 8_000,
                reason: "the provider is overloaded (529)".into(),
            },
        ]);
        screen.wait(5_100);
    });
}

#[test]
fn a_question() {
    snapshot_sizes("question", &all_sizes(), |screen| {
        screen.receive(working_turn());
        screen.receive([question(1, "pypi.org")]);
        screen.wait(0);
        screen.wait(400);
    });
    snapshot_sizes("question_not_armed", &[(80, 24)], |screen| {
        screen.receive(working_turn());
        screen.receive([question(1, "pypi.org"), question(2, "crates.io")]);
        screen.wait(0);
    });
    snapshot_sizes("question_while_writing", &[(80, 24)], |screen| {
        screen.receive(working_turn());
        screen.type_in("and then");
        screen.receive([question(1, "pypi.org"), question(2, "crates.io")]);
        screen.wait(0);
        screen.wait(400);
    });
    snapshot_sizes("question_held", &[(80, 24)], |screen| {
        screen.receive(working_turn());
        screen.receive([question(1, "pypi.org")]);
        screen.wait(0);
        screen.wait(400);
        screen.type_in("s");
    });
    snapshot_sizes("question_behind_help", &[(80, 24)], |screen| {
        screen.type_in("/help");
        screen.enter();
        screen.receive([question(1, "pypi.org")]);
    });
}

#[test]
fn writing() {
    snapshot_sizes("completion", &SIZES, |screen| {
        with_finished_turn(screen);
        screen.type_in("/co");
    });
    snapshot_sizes("queue", &SIZES, |screen| {
        screen.receive(working_turn());
        for message in [
            "then run the linter",
            "and commit it",
            "and push",
            "and tell me",
        ] {
            screen.type_in(message);
            screen.enter();
        }
        screen.wait(1_000);
    });
    snapshot_sizes("long_message", &[(80, 24), (40, 10)], |screen| {
        with_ready_agent(screen);
        for line in 1..20 {
            screen.type_in(&format!("line {line} of a message"));
            screen.press(KeyCode::Enter, KeyModifiers::ALT);
        }
        screen.type_in("the end");
    });
    snapshot_sizes("leaving", &[(80, 24)], |screen| {
        with_ready_agent(screen);
        screen.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    });
    snapshot_sizes("recall", &[(80, 24)], |screen| {
        with_ready_agent(screen);
        screen.type_in("make the parser refuse a line without a name");
        screen.enter();
        with_finished_turn(screen);
        screen.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
        screen.type_in("pars");
    });
}

#[test]
fn looking() {
    snapshot_sizes("browse", &SIZES, |screen| {
        with_finished_turn(screen);
        screen.press(KeyCode::Tab, KeyModifiers::NONE);
    });
    snapshot_sizes("search", &SIZES, |screen| {
        with_finished_turn(screen);
        screen.press(KeyCode::Char('f'), KeyModifiers::CONTROL);
        screen.type_in("parser");
    });
    snapshot_sizes("scrolled", &[(80, 24), (40, 10)], |screen| {
        with_finished_turn(screen);
        screen.wait(10);
        screen.press(KeyCode::Home, KeyModifiers::CONTROL);
        screen.wait(10);
        screen.receive([
            turn(2, "go on"),
            EventKind::TextDelta {
                text: "Well.".into(),
            },
        ]);
    });
}

#[test]
fn the_status() {
    snapshot_sizes("budget", &SIZES, |screen| {
        with_finished_turn(screen);
        let mut spent = spending(0.91, Some(1.0));
        spent.usage = usage(180_000, 4_000);
        screen.receive([
            EventKind::NetworkChanged {
                network: vec!["pypi.org".into(), "crates.io".into()],
            },
            replied(vec![], usage(165_000, 4_000), Some(0.7)),
            EventKind::Background {
                jobs: vec![background("python -m http.server", None)],
            },
            ended(1, spent),
        ]);
    });
    snapshot_sizes("attached", &SIZES, |screen| {
        let events = [working_turn(), working_end()].concat();
        let mut summarizer = samples::Summarizer::default();
        let history = events
            .into_iter()
            .filter(EventKind::is_lasting)
            .map(|kind| samples::event(summarizer.add_summary(kind)));
        screen.notice(UiNotice::Opened(Box::new(OpenedSession {
            origin: SessionOrigin::Job {
                job: "0198c1de-0000-7000-8000-000000000001".parse().unwrap(),
                server: "build.example".into(),
            },
            history: history.collect(),
            model: samples::MODEL.into(),
            workspace: "/workspace".into(),
        })));
    });
}

fn command(screen: &mut TestScreen, line: &str) {
    with_finished_turn(screen);
    screen.type_in(line);
    screen.press(KeyCode::Esc, KeyModifiers::NONE);
    screen.enter();
}

fn sessions() -> Vec<SessionRow> {
    let row = |name: &str, age: i64, title: &str, turns, cost, outcome: &str| SessionRow {
        session: name.parse().unwrap(),
        changed: samples::start_time() - SignedDuration::from_secs(age),
        title: title.into(),
        workspace: "/home/ada/parser".into(),
        model: samples::MODEL.into(),
        turns,
        cost,
        outcome: Some(outcome.into()),
        excerpt: None,
    };
    vec![
        row(
            "20260315-115500-aaaa",
            300,
            "make the parser refuse a line without a name",
            1,
            Some(0.16),
            "done",
        ),
        row(
            "20260315-090000-bbbb",
            10_800,
            "why does the build take four minutes on a machine with two cores, and what can be done?",
            12,
            Some(3.2),
            "interrupted",
        ),
        row(
            "20260310-120000-cccc",
            432_000,
            "日本語のタイトル",
            3,
            None,
            "failed",
        ),
        row(
            "20260101-120000-dddd",
            6_000_000,
            "",
            1,
            Some(0.0012),
            "budget",
        ),
    ]
}

fn with_sessions(screen: &mut TestScreen) {
    command(screen, "/sessions");
    screen.notice(UiNotice::Sessions {
        words: String::new(),
        rows: sessions(),
    });
    let asked = screen.effects.iter().rev().find_map(|effect| match effect {
        crate::app::AppEffect::Ask(UiRequest::Preview(session)) => Some(session.clone()),
        _ => None,
    });
    let session: SessionId = asked.unwrap();
    screen.notice(UiNotice::Preview(SessionPreview {
        session,
        text: "> make the parser refuse a line without a name\n\nDone: a line without a name is \
               now refused."
            .into(),
    }));
}

#[test]
fn pickers() {
    snapshot_sizes("sessions_early", &[(80, 24)], |screen| {
        command(screen, "/sessions")
    });
    snapshot_sizes("sessions", &all_sizes(), with_sessions);
    snapshot_sizes("sessions_none", &[(80, 24)], |screen| {
        command(screen, "/sessions");
        screen.type_in("zebra");
        screen.notice(UiNotice::Sessions {
            words: "zebra".into(),
            rows: Vec::new(),
        });
    });
    snapshot_sizes("jobs", &SIZES, |screen| {
        command(screen, "/jobs");
        let row = |id: u8, state: &str, title: &str| JobRow {
            job: format!("0198c1d{id}-0000-7000-8000-000000000001")
                .parse()
                .unwrap(),
            title: title.into(),
            state: state.into(),
            changed: samples::start_time() - SignedDuration::from_secs(i64::from(id) * 4_000),
        };
        screen.notice(UiNotice::Jobs(vec![
            row(1, "running", "build me a todo app"),
            row(2, "complete", "port the tests to pytest"),
            row(3, "error", "translate the manual"),
        ]));
    });
    snapshot_sizes("jobs_failed", &[(80, 24)], |screen| {
        command(screen, "/jobs");
        screen.notice(UiNotice::Failed {
            what: "cannot reach the server `http://127.0.0.1:8080`".into(),
            hint: None,
        });
    });
    let models = |screen: &mut TestScreen| {
        command(screen, "/model");
        let names = ["claude-opus-4-5", "claude-sonnet-4-5", "openai/gpt-5"];
        screen.notice(UiNotice::Models(names.map(str::to_owned).into()));
    };
    snapshot_sizes("models", &SIZES, models);
    snapshot_sizes("models_typed", &[(80, 24)], |screen| {
        models(screen);
        screen.type_in("openai/local");
    });
}

#[test]
fn viewers() {
    snapshot_sizes("help", &all_sizes(), |screen| command(screen, "/help"));
    snapshot_sizes("cost", &SIZES, |screen| {
        command(screen, "/quiet");
        screen.press(KeyCode::Char('u'), KeyModifiers::CONTROL);
        let mut spent = spending(0.91, Some(1.0));
        spent.usage = usage(180_000, 4_000);
        spent.max_tokens = Some(2_000_000);
        spent.max_requests = Some(50);
        spent.max_seconds = Some(3_600.0);
        screen.receive([
            EventKind::ModelChanged {
                model: "openai/gpt-5".into(),
                window: Some(400_000),
            },
            EventKind::Replied {
                turn: 2,
                content: Vec::new(),
                stop: protocol::Stop::EndTurn,
                broken_calls: std::collections::BTreeMap::new(),
                usage: usage(100_000, 2_000),
                cost: None,
                model: "openai/gpt-5".into(),
            },
            ended(2, spent),
        ]);
        screen.type_in("/cost");
        screen.press(KeyCode::Esc, KeyModifiers::NONE);
        screen.enter();
    });
    let changes = |screen: &mut TestScreen| {
        command(screen, "/diff");
        let asked = AgentCommand::Diff;
        assert!(
            screen
                .effects
                .contains(&crate::app::AppEffect::Ask(UiRequest::Agent(asked)))
        );
        let change = |path: &str, diff: Option<&str>| Change {
            path: path.into(),
            diff: diff.map(str::to_owned),
        };
        screen.receive([EventKind::Differs {
            changes: vec![
                samples::edit(),
                change(
                    "tests/it/a_rather_long_name_for_a_test_of_the_parser.rs",
                    Some("@@ -0,0 +1,2 @@\n+#[test]\n+fn a_line_without_a_name_is_refused() {}\n"),
                ),
                change("logo.png", None),
            ],
            left_out: 2,
        }]);
    };
    snapshot_sizes("changes", &SIZES, changes);
    snapshot_sizes("changes_search", &[(80, 24)], |screen| {
        changes(screen);
        screen.wait(10);
        screen.type_in("/name");
    });
    snapshot_sizes("files", &SIZES, |screen| {
        command(screen, "/files");
        let paths = [
            "Cargo.toml",
            "src/main.rs",
            "src/parser.rs",
            "src/ui/mod.rs",
            "tests/it/main.rs",
        ];
        screen.receive([EventKind::Files {
            paths: paths.map(str::to_owned).into(),
            is_cut: true,
        }]);
    });
}
