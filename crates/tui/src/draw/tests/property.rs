//! Property tests: any input is survived, and drawing stays inside the screen.

use std::collections::BTreeMap;
use std::time::Duration;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use jiff::Timestamp;
use proptest::prelude::*;
use protocol::{
    BackgroundJob, Block, CallId, CallKind, CallSummary, Change, Decision, EventKind, Outcome,
    Question, Scope, Spending, Stop, Subject, Usage,
};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::json;

use crate::app::{AppInput, TuiApp};
use crate::draw::draw;
use crate::port::{JobRow, OpenedSession, SessionOrigin, SessionPreview, SessionRow, UiNotice};
use crate::samples;
use crate::theme::ColourScheme;

/// Text as a sandbox or a model might write it.
fn words() -> impl Strategy<Value = String> {
    let bits = prop_oneof![
        Just("hello world".to_owned()),
        Just("\u{1b}[31mred\u{1b}[0m".to_owned()),
        Just("\u{1b}]0;title\u{7}\u{9b}2J".to_owned()),
        Just("日本語 👩‍👩‍👧 e\u{301}\u{200d}".to_owned()),
        Just(
            "# head\n\n- a\n- b\n\n```rust\nfn x() {\n```\n| a | b |\n|---|---|\n| 1 | 2 |"
                .to_owned()
        ),
        Just("x".repeat(300)),
        Just("line\n".repeat(60)),
        Just("\u{202e}\r\t\0\u{2028}".to_owned()),
        "\\PC{0,12}",
        any::<String>().prop_map(|text| text.chars().take(20).collect()),
    ];
    prop::collection::vec(bits, 0..3).prop_map(|bits| bits.concat())
}

fn call() -> impl Strategy<Value = CallId> {
    (0..3u8).prop_map(|number| CallId(number.to_string()))
}

fn usage() -> impl Strategy<Value = Usage> {
    (0..400_000u64, 0..9_000u64).prop_map(|(input, output)| samples::usage(input, output))
}

fn spending() -> impl Strategy<Value = Spending> {
    (
        usage(),
        prop::option::of(0.0..9.0f64),
        prop::option::of(0.0..9.0f64),
    )
        .prop_map(|(usage, cost, max_cost)| Spending {
            usage,
            cost,
            max_cost,
            max_tokens: Some(0),
            max_seconds: Some(9.0),
            ..Spending::default()
        })
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let change = (words(), prop::option::of(words()));
    prop::collection::vec(change.prop_map(|(path, diff)| Change { path, diff }), 0..3)
}

fn question() -> impl Strategy<Value = Question> {
    (0..4u32, words(), words(), words()).prop_map(|(number, what, why, host)| Question {
        number,
        what,
        why,
        subject: Subject::Host { host },
    })
}

fn event() -> impl Strategy<Value = EventKind> {
    let text = || words().prop_map(|text| vec![Block::text(text)]);
    let talk = prop_oneof![
        (words(), any::<bool>()).prop_map(|(host, asks)| samples::ready("native", &[&host], asks)),
        (1..4u32, text()).prop_map(|(turn, prompt)| EventKind::TurnStarted { turn, prompt }),
        Just(EventKind::RequestStarted {
            turn: 1,
            request: 1
        }),
        words().prop_map(|text| EventKind::TextDelta { text }),
        words().prop_map(|text| EventKind::ThinkingDelta { text }),
        (call(), words(), words()).prop_map(|(call, name, json)| EventKind::InputDelta {
            call,
            name,
            json
        }),
        (0..5_000u64, words()).prop_map(|(wait_ms, reason)| EventKind::Retrying {
            attempt: 1,
            wait_ms,
            reason
        }),
        (text(), usage(), prop::option::of(0.0..1.0f64)).prop_map(|(content, usage, cost)| {
            EventKind::Replied {
                turn: 1,
                content,
                stop: Stop::EndTurn,
                broken_calls: BTreeMap::new(),
                usage,
                cost,
                model: samples::MODEL.into(),
            }
        }),
        spending().prop_map(|spending| EventKind::Spent { spending }),
        (1..4u32, spending(), words()).prop_map(|(turn, spending, reason)| EventKind::TurnEnded {
            turn,
            outcome: Outcome::Failed { reason },
            spending,
        }),
        (1..4u32, spending()).prop_map(|(turn, spending)| samples::ended(turn, spending)),
    ];
    let tools = prop_oneof![
        (call(), words()).prop_map(|(call, summary)| EventKind::ToolStarted {
            call,
            name: "bash".into(),
            input: json!({"command": "x"}),
            summary: Box::new(CallSummary::new(CallKind::Command, &summary, &summary)),
        }),
        (call(), words(), any::<bool>()).prop_map(|(call, text, is_error)| EventKind::ToolOutput {
            call,
            text,
            is_error
        }),
        (call(), text(), any::<bool>(), changes()).prop_map(
            |(call, content, is_error, changes)| {
                EventKind::ToolEnded {
                    call,
                    name: "bash".into(),
                    content,
                    is_error,
                    kept: None,
                    changes,
                    millis: 7,
                    denied: Some(false),
                    summary: None,
                }
            }
        ),
        (call(), words(), prop::option::of(words())).prop_map(|(call, tail, ending)| {
            let job = BackgroundJob {
                job: 1,
                call,
                command: tail.clone(),
                since: samples::start_time(),
                tail,
                ending,
            };
            EventKind::Background { jobs: vec![job] }
        }),
    ];
    let rest = prop_oneof![
        question().prop_map(|question| EventKind::Asked { question }),
        (question(), any::<bool>()).prop_map(|(question, is_allowed)| EventKind::Decided {
            question,
            decision: Some(Decision {
                is_allowed,
                scope: Scope::Session
            }),
        }),
        (prop::collection::vec(words(), 0..4), any::<bool>())
            .prop_map(|(paths, is_cut)| EventKind::Files { paths, is_cut }),
        (changes(), 0..3u64)
            .prop_map(|(changes, left_out)| EventKind::Differs { changes, left_out }),
        words().prop_map(|reason| EventKind::CommandRefused { reason }),
        words().prop_map(|text| EventKind::Noted { text }),
        (words(), usage()).prop_map(|(summary, usage)| EventKind::Compacted {
            summary,
            usage,
            cost: None,
            model: samples::MODEL.into(),
        }),
        prop::collection::vec(words(), 0..3)
            .prop_map(|network| EventKind::NetworkChanged { network }),
    ];
    prop_oneof![3 => talk, 2 => tools, 2 => rest]
}

fn notice() -> impl Strategy<Value = UiNotice> {
    let row = (words(), words()).prop_map(|(title, outcome)| SessionRow {
        session: samples::session(),
        changed: Timestamp::MIN,
        title,
        workspace: String::new(),
        model: String::new(),
        turns: 3,
        cost: None,
        outcome: Some(outcome),
        excerpt: None,
    });
    let job = words().prop_map(|title| JobRow {
        job: "0198c1de-0000-7000-8000-000000000001".parse().unwrap(),
        state: title.clone(),
        title,
        changed: Timestamp::MAX,
    });
    let opened = prop::collection::vec(event(), 0..4).prop_map(|kinds| {
        UiNotice::Opened(Box::new(OpenedSession {
            origin: SessionOrigin::Here { session: None },
            history: kinds.into_iter().map(samples::event).collect(),
            model: samples::MODEL.into(),
            workspace: String::new(),
        }))
    });
    prop_oneof![
        20 => event().prop_map(|kind| UiNotice::Event(samples::event(kind))),
        1 => opened,
        1 => prop::collection::vec(row, 0..4).prop_map(|rows| UiNotice::Sessions {
            words: String::new(),
            rows,
        }),
        1 => words().prop_map(|text| UiNotice::Preview(SessionPreview {
            session: samples::session(),
            text,
        })),
        1 => prop::collection::vec(job, 0..4).prop_map(UiNotice::Jobs),
        1 => prop::collection::vec(words(), 0..4).prop_map(UiNotice::Models),
        1 => words().prop_map(UiNotice::Said),
        1 => words().prop_map(|what| UiNotice::Failed { what, hint: None }),
        1 => words().prop_map(|what| UiNotice::Lost { what, hint: None }),
    ]
}

fn key() -> impl Strategy<Value = KeyEvent> {
    let code = prop_oneof![
        8 => prop::char::range(' ', '~').prop_map(KeyCode::Char),
        8 => prop::sample::select("/@yndsatrofgclpkj".chars().collect::<Vec<_>>())
            .prop_map(KeyCode::Char),
        4 => prop::sample::select(vec![
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Tab,
            KeyCode::BackTab,
            KeyCode::Up,
            KeyCode::Down,
            KeyCode::Left,
            KeyCode::Right,
            KeyCode::Home,
            KeyCode::End,
            KeyCode::PageUp,
            KeyCode::PageDown,
            KeyCode::Backspace,
            KeyCode::Delete,
            KeyCode::F(1),
        ]),
    ];
    let held = prop_oneof![
        6 => Just(KeyModifiers::NONE),
        2 => Just(KeyModifiers::CONTROL),
        1 => Just(KeyModifiers::ALT),
        1 => Just(KeyModifiers::SHIFT),
    ];
    (code, held).prop_map(|(code, held)| KeyEvent::new(code, held))
}

/// One input, or the keys of a command.
fn inputs() -> impl Strategy<Value = Vec<AppInput>> {
    let size = || prop_oneof![Just(0u16), Just(1), Just(2), 3..12u16, 20..130u16];
    let mouse = (0..130u16, 0..50u16, any::<bool>()).prop_map(|(column, row, is_wheel)| {
        AppInput::Mouse(MouseEvent {
            kind: if is_wheel {
                MouseEventKind::ScrollUp
            } else {
                MouseEventKind::Down(MouseButton::Left)
            },
            column,
            row,
            modifiers: KeyModifiers::NONE,
        })
    });
    let command = prop::sample::select(vec![
        "/help",
        "/sessions",
        "/jobs",
        "/model",
        "/cost",
        "/diff",
        "/files",
        "/search x",
        "/undo",
    ]);
    let command = command.prop_map(|line| {
        let characters = line.chars().map(KeyCode::Char);
        let keys = characters.chain([KeyCode::Esc, KeyCode::Enter]);
        keys.map(|code| AppInput::Key(KeyEvent::from(code)))
            .collect()
    });
    prop_oneof![
        6 => key().prop_map(|key| vec![AppInput::Key(key)]),
        6 => notice().prop_map(|notice| vec![AppInput::Notice(notice)]),
        1 => words().prop_map(|text| vec![AppInput::Paste(text)]),
        2 => (size(), size()).prop_map(|(width, height)| vec![AppInput::Resized { width, height }]),
        1 => mouse.prop_map(|mouse| vec![mouse]),
        2 => Just(vec![AppInput::Shown]),
        2 => Just(vec![AppInput::Time]),
        1 => words().prop_map(|text| vec![AppInput::Edited(text)]),
        2 => command,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 192,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_inputs_are_drawn_inside_the_screen(
        steps in prop::collection::vec((inputs(), 0..600u64), 1..40),
        scheme in prop::sample::select(vec![ColourScheme::Dark, ColourScheme::Light, ColourScheme::Plain]),
    ) {
        let mut app = TuiApp::new(scheme, 80, 24);
        app.start_time = Some(samples::start_time());
        let mut now = Duration::ZERO;
        for (inputs, millis) in steps {
            now += Duration::from_millis(millis);
            for input in inputs {
                app.update(now, input);
            }
            if let Some(next) = app.wakes_at() {
                prop_assert!(next > Duration::ZERO);
            }
            app.arrange();
            let backend = TestBackend::new(app.width, app.height);
            let mut terminal = Terminal::new(backend).unwrap();
            terminal.draw(|frame| draw(&app, frame)).unwrap();
            for cell in terminal.backend().buffer().content() {
                prop_assert!(!cell.symbol().chars().any(char::is_control), "{cell:?}");
            }
            if terminal.backend().cursor_visible() {
                let cursor = terminal.backend().cursor_position();
                prop_assert!(terminal.backend().buffer().area.contains(cursor));
            }
            // The terminal may have shrunk before the draw.
            let smaller = TestBackend::new(app.width / 2, app.height / 2);
            let mut terminal = Terminal::new(smaller).unwrap();
            terminal.draw(|frame| draw(&app, frame)).unwrap();
        }
    }
}
