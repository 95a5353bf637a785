//! Every screen at several sizes.

use crossterm::event::{KeyCode, KeyModifiers};
use jiff::SignedDuration;
use protocol::{Change, Command, EventKind, SessionId};

use super::scene::Scene;
use crate::port::{JobRow, Notice, Opened, Origin, Preview, Request, SessionRow};
use crate::samples::{
    self, background, ended, question, ready, replied, spending, started, turn, usage, working_end,
    working_turn,
};
use crate::theme::Look;

/// Sizes at which each screen is drawn.
const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];
const LARGE: (u16, u16) = (300, 100);
const TINY: (u16, u16) = (20, 5);

fn look_at(name: &str, sizes: &[(u16, u16)], live: impl Fn(&mut Scene)) {
    for (width, height) in sizes {
        let mut scene = Scene::new(Look::Dark, *width, *height);
        live(&mut scene);
        insta::assert_snapshot!(format!("{name}_{width}x{height}"), scene.picture());
    }
}

fn all_sizes() -> Vec<(u16, u16)> {
    [&SIZES[..], &[LARGE, TINY]].concat()
}

fn ready_to_talk(scene: &mut Scene) {
    scene.hear([ready("native", &[], true)]);
}

fn has_worked(scene: &mut Scene) {
    scene.hear(working_turn());
    scene.hear(working_end());
    scene.wait(10);
}

#[test]
fn the_first_screen() {
    look_at("start_early", &SIZES, |_| {});
    look_at("start", &all_sizes(), ready_to_talk);
    look_at("start_no_sandbox", &SIZES, |scene| {
        scene.hear([ready("none", &[], false)]);
    });
}

#[test]
fn a_turn() {
    look_at("working", &all_sizes(), |scene| {
        scene.hear(working_turn());
        scene.wait(7_300);
    });
    look_at("worked", &all_sizes(), has_worked);
    look_at("no_sandbox", &[(80, 24)], |scene| {
        has_worked(scene);
        scene.hear([ready("none", &[], false)]);
    });
    look_at("retrying", &[(80, 24)], |scene| {
        scene.hear([
            ready("native", &[], false),
            started(),
            turn(1, "hello"),
            EventKind::Retrying {
                attempt: 2,
                wait_ms: 8_000,
                reason: "the provider is overloaded (529)".into(),
            },
        ]);
        scene.wait(5_100);
    });
}

#[test]
fn a_question() {
    look_at("question", &all_sizes(), |scene| {
        scene.hear(working_turn());
        scene.hear([question(1, "pypi.org")]);
        scene.wait(0);
        scene.wait(400);
    });
    look_at("question_not_armed", &[(80, 24)], |scene| {
        scene.hear(working_turn());
        scene.hear([question(1, "pypi.org"), question(2, "crates.io")]);
        scene.wait(0);
    });
    look_at("question_while_writing", &[(80, 24)], |scene| {
        scene.hear(working_turn());
        scene.type_in("and then");
        scene.hear([question(1, "pypi.org"), question(2, "crates.io")]);
        scene.wait(0);
        scene.wait(400);
    });
    look_at("question_held", &[(80, 24)], |scene| {
        scene.hear(working_turn());
        scene.hear([question(1, "pypi.org")]);
        scene.wait(0);
        scene.wait(400);
        scene.type_in("s");
    });
    look_at("question_behind_help", &[(80, 24)], |scene| {
        scene.type_in("/help");
        scene.enter();
        scene.hear([question(1, "pypi.org")]);
    });
}

#[test]
fn writing() {
    look_at("completion", &SIZES, |scene| {
        has_worked(scene);
        scene.type_in("/co");
    });
    look_at("queue", &SIZES, |scene| {
        scene.hear(working_turn());
        for message in [
            "then run the linter",
            "and commit it",
            "and push",
            "and tell me",
        ] {
            scene.type_in(message);
            scene.enter();
        }
        scene.wait(1_000);
    });
    look_at("long_message", &[(80, 24), (40, 10)], |scene| {
        ready_to_talk(scene);
        for line in 1..20 {
            scene.type_in(&format!("line {line} of a message"));
            scene.press(KeyCode::Enter, KeyModifiers::ALT);
        }
        scene.type_in("the end");
    });
    look_at("leaving", &[(80, 24)], |scene| {
        ready_to_talk(scene);
        scene.press(KeyCode::Char('c'), KeyModifiers::CONTROL);
    });
    look_at("recall", &[(80, 24)], |scene| {
        ready_to_talk(scene);
        scene.type_in("make the parser refuse a line without a name");
        scene.enter();
        has_worked(scene);
        scene.press(KeyCode::Char('r'), KeyModifiers::CONTROL);
        scene.type_in("pars");
    });
}

#[test]
fn looking() {
    look_at("browse", &SIZES, |scene| {
        has_worked(scene);
        scene.press(KeyCode::Tab, KeyModifiers::NONE);
    });
    look_at("search", &SIZES, |scene| {
        has_worked(scene);
        scene.press(KeyCode::Char('f'), KeyModifiers::CONTROL);
        scene.type_in("parser");
    });
    look_at("scrolled", &[(80, 24), (40, 10)], |scene| {
        has_worked(scene);
        scene.wait(10);
        scene.press(KeyCode::Home, KeyModifiers::CONTROL);
        scene.wait(10);
        scene.hear([
            turn(2, "go on"),
            EventKind::TextDelta {
                text: "Well.".into(),
            },
        ]);
    });
}

#[test]
fn the_status() {
    look_at("budget", &SIZES, |scene| {
        has_worked(scene);
        let mut spent = spending(0.91, Some(1.0));
        spent.usage = usage(180_000, 4_000);
        scene.hear([
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
    look_at("attached", &SIZES, |scene| {
        let events = [working_turn(), working_end()].concat();
        let history = events
            .into_iter()
            .filter(EventKind::lasts)
            .map(samples::event);
        scene.notice(Notice::Opened(Box::new(Opened {
            origin: Origin::Job {
                job: "0198c1de-0000-7000-8000-000000000001".parse().unwrap(),
                server: "build.example".into(),
            },
            history: history.collect(),
            model: samples::MODEL.into(),
            workspace: "/workspace".into(),
        })));
    });
}

fn command(scene: &mut Scene, line: &str) {
    has_worked(scene);
    scene.type_in(line);
    scene.press(KeyCode::Esc, KeyModifiers::NONE);
    scene.enter();
}

fn sessions() -> Vec<SessionRow> {
    let row = |name: &str, age: i64, title: &str, turns, cost, outcome: &str| SessionRow {
        session: name.parse().unwrap(),
        changed: samples::began() - SignedDuration::from_secs(age),
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

fn with_sessions(scene: &mut Scene) {
    command(scene, "/sessions");
    scene.notice(Notice::Sessions {
        words: String::new(),
        rows: sessions(),
    });
    let asked = scene.effects.iter().rev().find_map(|effect| match effect {
        crate::app::Effect::Ask(Request::Preview(session)) => Some(session.clone()),
        _ => None,
    });
    let session: SessionId = asked.unwrap();
    scene.notice(Notice::Preview(Preview {
        session,
        text: "> make the parser refuse a line without a name\n\nDone: a line without a name is \
               now refused."
            .into(),
    }));
}

#[test]
fn pickers() {
    look_at("sessions_early", &[(80, 24)], |scene| {
        command(scene, "/sessions")
    });
    look_at("sessions", &all_sizes(), with_sessions);
    look_at("sessions_none", &[(80, 24)], |scene| {
        command(scene, "/sessions");
        scene.type_in("zebra");
        scene.notice(Notice::Sessions {
            words: "zebra".into(),
            rows: Vec::new(),
        });
    });
    look_at("jobs", &SIZES, |scene| {
        command(scene, "/jobs");
        let row = |id: u8, state: &str, title: &str| JobRow {
            job: format!("0198c1d{id}-0000-7000-8000-000000000001")
                .parse()
                .unwrap(),
            title: title.into(),
            state: state.into(),
            changed: samples::began() - SignedDuration::from_secs(i64::from(id) * 4_000),
        };
        scene.notice(Notice::Jobs(vec![
            row(1, "running", "build me a todo app"),
            row(2, "complete", "port the tests to pytest"),
            row(3, "error", "translate the manual"),
        ]));
    });
    look_at("jobs_failed", &[(80, 24)], |scene| {
        command(scene, "/jobs");
        scene.notice(Notice::Failed {
            what: "cannot reach the server `http://127.0.0.1:8080`".into(),
            hint: None,
        });
    });
    let models = |scene: &mut Scene| {
        command(scene, "/model");
        let names = ["claude-opus-4-5", "claude-sonnet-4-5", "openai/gpt-5"];
        scene.notice(Notice::Models(names.map(str::to_owned).into()));
    };
    look_at("models", &SIZES, models);
    look_at("models_typed", &[(80, 24)], |scene| {
        models(scene);
        scene.type_in("openai/local");
    });
}

#[test]
fn viewers() {
    look_at("help", &all_sizes(), |scene| command(scene, "/help"));
    look_at("cost", &SIZES, |scene| {
        command(scene, "/quiet");
        scene.press(KeyCode::Char('u'), KeyModifiers::CONTROL);
        let mut spent = spending(0.91, Some(1.0));
        spent.usage = usage(180_000, 4_000);
        spent.max_tokens = Some(2_000_000);
        spent.max_requests = Some(50);
        spent.max_seconds = Some(3_600.0);
        scene.hear([
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
        scene.type_in("/cost");
        scene.press(KeyCode::Esc, KeyModifiers::NONE);
        scene.enter();
    });
    let changes = |scene: &mut Scene| {
        command(scene, "/diff");
        let asked = Command::Diff;
        assert!(
            scene
                .effects
                .contains(&crate::app::Effect::Ask(Request::Agent(asked)))
        );
        let change = |path: &str, diff: Option<&str>| Change {
            path: path.into(),
            diff: diff.map(str::to_owned),
        };
        scene.hear([EventKind::Differs {
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
    look_at("changes", &SIZES, changes);
    look_at("changes_search", &[(80, 24)], |scene| {
        changes(scene);
        scene.wait(10);
        scene.type_in("/name");
    });
    look_at("files", &SIZES, |scene| {
        command(scene, "/files");
        let paths = [
            "Cargo.toml",
            "src/main.rs",
            "src/parser.rs",
            "src/ui/mod.rs",
            "tests/it/main.rs",
        ];
        scene.hear([EventKind::Files {
            paths: paths.map(str::to_owned).into(),
            is_cut: true,
        }]);
    });
}
